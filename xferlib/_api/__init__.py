"""The public verbs on one array, on trees and on this machine: thin functions over `_transfer`."""
