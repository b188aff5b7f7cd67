"""Indexes: find the vectors nearest to a query."""

from ragsweep.parts.indexes.approximate import Hnsw, Ivf, Pq, Sq
from ragsweep.parts.indexes.faiss_index import Flat
from ragsweep.parts.indexes.lance import LanceHnsw, LanceIvfPq
from ragsweep.parts.indexes.pgvector import PgVector
from ragsweep.parts.indexes.qdrant import Qdrant
