"""Identifiers of a frozen index by their parts: which of its terms are made of the words of a query.

    spellings    from texts, or from bare terms, to terms and their parts
    collected    what was read so far of them, to go on from
    building     from an engine to its dictionary
    dictionary   the file that keeps them
    place        where the dictionary of an engine stands
    expanding    from a query to the terms it is widened by

An analyzer made for prose leaves `handleWebSocketUpgrade` one term. Nothing in such an index says what it is made of; a
dictionary beside it does. The weights are `qidf.weighting.expand`'s.
"""
