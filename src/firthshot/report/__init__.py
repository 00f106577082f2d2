"""Run folders → figures, tables and one web page that says whether Firth helps."""
