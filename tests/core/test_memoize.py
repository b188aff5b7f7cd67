"""What was made of the very same objects is not made again."""

from ragsweep.core.memoize import KEPT, memoize_by_identity


def test_same_objects_give_the_same_value_and_equal_ones_another() -> None:
    join = memoize_by_identity(lambda one, name: [*one, name])
    given = ["a"]
    first = join(given, "b")
    assert join(given, "".join(["b"])) is first
    assert join(["a"], "b") is not first
    assert join(given, "c") == ["a", "c"]
    assert join(given, "b") is first


def test_numbers_of_different_types_are_different() -> None:
    kind = memoize_by_identity(lambda value: type(value).__name__)
    assert [kind(1), kind(True), kind("1"), kind(b"1"), kind(None)] == ["int", "bool", "str", "bytes", "NoneType"]


def test_oldest_values_are_forgotten() -> None:
    made: list[int] = []
    note = memoize_by_identity(made.append)
    for n in [*range(KEPT + 1), KEPT, 0]:
        note(n)
    assert made == [*range(KEPT + 1), 0]
