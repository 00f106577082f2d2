"""What `firthshot fit` says of a user's rows, held against rows that it did not see."""
