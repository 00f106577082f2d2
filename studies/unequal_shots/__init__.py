"""Compare what helps where classes have unequal numbers of examples."""
