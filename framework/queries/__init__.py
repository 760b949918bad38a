"""Query types, a room each: everything a type means to the framework is in its directory (see ``protocol``)."""
