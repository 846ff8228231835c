"""A search body of OpenSearch or Elasticsearch with q-logarithm weights: plain JSON in, plain JSON out, no request.

    plan(body, mapping)                       which texts need tokens and statistics; none, and the body goes as it is
    rewrite(body, plan, statistics, scheme)   each match as a bool of one clause a position, with its boost

Whoever asks the server stands between the two. A `match` becomes what the server itself makes of it, a boolean query
of term queries, so the same documents match; a multi_match becomes the dis_max that it is. Within one match
Σ boost · idf stays Σ idf (`qidf.weighting.boosts`), with idf = ln(1 + (N − n + 0.5) / (n + 0.5)) over all shards:
search with `dfs_query_then_fetch`, or each shard multiplies by an idf of its own.

It fails open: what is not understood stays as it was and is told in the notes. No body raises, and none is changed in
place. Knows nothing of servers and clients.
"""

from qidf.rewriting.body import Match, Note, Placed, Plan, Rewritten, Site, Statistics, Text
from qidf.rewriting.fields import analyzer_of
from qidf.rewriting.planning import plan
from qidf.rewriting.weighing import rewrite

__all__ = [
    "Match",
    "Note",
    "Placed",
    "Plan",
    "Rewritten",
    "Site",
    "Statistics",
    "Text",
    "analyzer_of",
    "plan",
    "rewrite",
]
