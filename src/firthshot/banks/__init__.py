"""Features at rest: the bank file, where banks are found, importers, and the doctor."""

from firthshot.banks._bank import DEALT, Bank, halve_novel, make_bank
from firthshot.banks._doctor import Finding, diagnose, refuse_not_finite
from firthshot.banks._file import save_bank
from firthshot.banks._find import BankEntry, list_banks, load_bank, load_version
from firthshot.banks._importers import export_npz, import_bank, import_dealt, import_whole
from firthshot.banks._meta import SPLITS, BankMeta
from firthshot.banks._pickle import read_data_pickle
from firthshot.banks._sources import READERS, Source, naming_errors, read_npy, read_npz, read_source

__all__ = [
    "DEALT", "READERS", "SPLITS", "Bank", "BankEntry", "BankMeta", "Finding", "Source", "diagnose",
    "export_npz", "halve_novel", "import_bank", "import_dealt", "import_whole", "list_banks",
    "load_bank", "load_version", "make_bank", "naming_errors", "read_data_pickle", "read_npy",
    "read_npz", "read_source", "refuse_not_finite", "save_bank",
]  # fmt: skip
