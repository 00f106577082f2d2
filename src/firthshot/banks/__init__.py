"""Features at rest: the bank file, where banks are found, importers, and the doctor."""

from firthshot.banks._bank import Bank, make_bank
from firthshot.banks._file import save_bank
from firthshot.banks._find import BankEntry, list_banks, load_bank
from firthshot.banks._meta import SPLITS, BankMeta

__all__ = [
    "SPLITS",
    "Bank",
    "BankEntry",
    "BankMeta",
    "list_banks",
    "load_bank",
    "make_bank",
    "save_bank",
]
