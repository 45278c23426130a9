"""The interface of a storage, and the other kinds of storages."""
