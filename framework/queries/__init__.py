"""Query types, a room each: everything a type means to the framework is in its folder (see ``protocol``)."""
