"""The lab: does it help on these queries? Test collections, measures, differences with their intervals."""
