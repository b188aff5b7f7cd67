"""Contract tests for a dataset reader; to apply them, inherit from ``DatasetContract`` and set ``part``."""

from collections.abc import Callable

from ragsweep.core.types import DatasetReader
from ragsweep.testing.contract import Contract


class DatasetContract(Contract):
    """Contract tests for a dataset reader: set ``part`` to your class, or to a method that returns an instance.

    The instance should read a small dataset.
    """

    part: Callable[[], DatasetReader]

    def test_ids_are_unique(self) -> None:
        """Check that there are documents and questions, and that their ids are unique, because results refer to ids."""
        dataset = self.part().load()
        assert len(set(dataset.corpus.ids)) == len(dataset.corpus.ids) > 0
        identifiers = [question.id for question in dataset.golden.questions]
        assert len(set(identifiers)) == len(identifiers) > 0

    def test_evidence_names_documents_of_the_corpus(self) -> None:
        """Check that every document has an id, a title and a text, and that evidence is in documents of the corpus."""
        dataset = self.part().load()
        assert len(dataset.corpus.ids) == len(dataset.corpus.titles) == len(dataset.corpus.texts)
        named = {evidence.document for question in dataset.golden.questions for evidence in question.evidence}
        assert named <= set(dataset.corpus.ids)

    def test_reading_twice_gives_the_same_digests(self) -> None:
        """Check that a second reading gives equal digests of corpus and golden set; digests identify results."""
        first, second = self.part().load(), self.part().load()
        assert (first.corpus.digest, first.golden.digest) == (second.corpus.digest, second.golden.digest)
