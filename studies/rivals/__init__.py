"""Rivals of Firth's heads, and what verdicts charge Firth with."""
