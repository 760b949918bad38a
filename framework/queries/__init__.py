"""The query types, one directory each, with everything the framework knows about a type (see ``protocol``)."""
