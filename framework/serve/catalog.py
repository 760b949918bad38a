"""PostgreSQL's system catalogs and its information schema, as tables that describe the served relations.

Tables that clients read have rows. The others are empty, because the server has no indexes, keys, sequences, triggers or rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from skyband.framework.serve.protocol.values import ELEMENTS, FUNCTIONS, LENGTHS, NAMES, TYPES, modifier, oid_of, procedure

# The columns of PostgreSQL's catalogs: ``name:letter``, the letters being those of ``catalog``.

_STAT_TABLES: Final = (
    "relid:o schemaname:t relname:t seq_scan:o last_seq_scan:x seq_tup_read:o idx_scan:o last_idx_scan:x idx_tup_fetch:o n_tup_ins:o "
    "n_tup_upd:o n_tup_del:o n_tup_hot_upd:o n_live_tup:o n_dead_tup:o n_mod_since_analyze:o n_ins_since_vacuum:o last_vacuum:x "
    "last_autovacuum:x last_analyze:x last_autoanalyze:x vacuum_count:o autovacuum_count:o analyze_count:o autoanalyze_count:o"
)
_STATIO_TABLES: Final = (
    "relid:o schemaname:t relname:t heap_blks_read:o heap_blks_hit:o idx_blks_read:o idx_blks_hit:o toast_blks_read:o toast_blks_hit:o "
    "tidx_blks_read:o tidx_blks_hit:o"
)
_STAT_INDEXES: Final = (
    "relid:o indexrelid:o schemaname:t relname:t indexrelname:t idx_scan:o last_idx_scan:x idx_tup_read:o idx_tup_fetch:o"
)
REGPROC: Final = frozenset(
    {"typinput", "typoutput", "typreceive", "typsend", "typmodin", "typmodout", "typanalyze", "typsubscript", "amhandler", "rngcanonical",
     "rngsubdiff"}
)  # fmt: skip
"""Columns with names of functions, which PostgreSQL's clients compare with names and with OIDs."""

PG_TABLES: Final[Mapping[str, str]] = {
    "pg_namespace": "oid:o nspname:t nspowner:o nspacl:T",
    "pg_class": (
        "oid:o relname:t relnamespace:o reltype:o reloftype:o relowner:o relam:o relfilenode:o reltablespace:o relpages:i reltuples:f "
        "relallvisible:i reltoastrelid:o relhasindex:b relisshared:b relpersistence:t relkind:t relnatts:i relchecks:i relhasrules:b "
        "relhastriggers:b relhassubclass:b relrowsecurity:b relforcerowsecurity:b relispopulated:b relreplident:t relispartition:b "
        "relrewrite:o relfrozenxid:o relminmxid:o relacl:T reloptions:T relpartbound:t xmin:o tableoid:o"
    ),
    "pg_attribute": (
        "attrelid:o attname:t atttypid:o attlen:i attnum:i attcacheoff:i atttypmod:i attndims:i attbyval:b attalign:t attstorage:t "
        "attcompression:t attnotnull:b atthasdef:b atthasmissing:b attidentity:t attgenerated:t attisdropped:b attislocal:b "
        "attinhcount:i attstattarget:i attcollation:o attacl:T attoptions:T attfdwoptions:T attmissingval:T"
    ),
    "pg_description": "objoid:o classoid:o objsubid:i description:t",
    "pg_shdescription": "objoid:o classoid:o description:t",
    "pg_type": (
        "oid:o typname:t typnamespace:o typowner:o typlen:i typbyval:b typtype:t typcategory:t typispreferred:b typisdefined:b typdelim:t "
        "typrelid:o typsubscript:t typelem:o typarray:o typinput:t typoutput:t typreceive:t typsend:t typmodin:t typmodout:t typanalyze:t "
        "typalign:t typstorage:t typnotnull:b typbasetype:o typtypmod:i typndims:i typcollation:o typdefaultbin:t typdefault:t typacl:T"
    ),
    "pg_database": (
        "oid:o datname:t datdba:o encoding:i datlocprovider:t datistemplate:b datallowconn:b datconnlimit:i datfrozenxid:o datminmxid:o "
        "dattablespace:o datcollate:t datctype:t daticulocale:t daticurules:t datlocale:t datcollversion:t datacl:T"
    ),
    "pg_roles": (
        "oid:o rolname:t rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b rolreplication:b rolconnlimit:i rolpassword:t "
        "rolvaliduntil:x rolbypassrls:b rolconfig:T"
    ),
    "pg_authid": "oid:o rolname:t rolsuper:b rolinherit:b rolcreaterole:b rolcreatedb:b rolcanlogin:b rolreplication:b rolconnlimit:i",
    "pg_auth_members": "oid:o roleid:o member:o grantor:o admin_option:b inherit_option:b set_option:b",
    "pg_user": "usename:t usesysid:o usecreatedb:b usesuper:b userepl:b usebypassrls:b passwd:t valuntil:x useconfig:T",
    "pg_group": "groname:t grosysid:o grolist:O",
    "pg_settings": (
        "name:t setting:t unit:t category:t short_desc:t extra_desc:t context:t vartype:t source:t min_val:t max_val:t enumvals:T "
        "boot_val:t reset_val:t sourcefile:t sourceline:i pending_restart:b"
    ),
    "pg_am": "oid:o amname:t amhandler:t amtype:t",
    "pg_tables": "schemaname:t tablename:t tableowner:t tablespace:t hasindexes:b hasrules:b hastriggers:b rowsecurity:b",
    "pg_views": "schemaname:t viewname:t viewowner:t definition:t",
    "pg_matviews": "schemaname:t matviewname:t matviewowner:t tablespace:t hasindexes:b ispopulated:b definition:t",
    "pg_indexes": "schemaname:t tablename:t indexname:t tablespace:t indexdef:t",
    "pg_sequences": "schemaname:t sequencename:t sequenceowner:t data_type:t start_value:o min_value:o max_value:o increment_by:o cycle:b",
    "pg_attrdef": "oid:o adrelid:o adnum:i adbin:t",
    "pg_constraint": (
        "oid:o conname:t connamespace:o contype:t condeferrable:b condeferred:b convalidated:b conrelid:o contypid:o conindid:o "
        "conparentid:o confrelid:o confupdtype:t confdeltype:t confmatchtype:t conislocal:b coninhcount:i connoinherit:b conkey:O "
        "confkey:O conpfeqop:O conppeqop:O conffeqop:O confdelsetcols:O conexclop:O conbin:t conperiod:b conenforced:b"
    ),
    "pg_index": (
        "indexrelid:o indrelid:o indnatts:i indnkeyatts:i indisunique:b indnullsnotdistinct:b indisprimary:b indisexclusion:b "
        "indimmediate:b indisclustered:b indisvalid:b indcheckxmin:b indisready:b indislive:b indisreplident:b indkey:O indcollation:O "
        "indclass:O indoption:O indexprs:t indpred:t"
    ),
    "pg_inherits": "inhrelid:o inhparent:o inhseqno:i inhdetachpending:b",
    "pg_depend": "classid:o objid:o objsubid:i refclassid:o refobjid:o refobjsubid:i deptype:t",
    "pg_proc": (
        "oid:o proname:t pronamespace:o proowner:o prolang:o procost:f prorows:f provariadic:o prosupport:t prokind:t prosecdef:b "
        "proleakproof:b proisstrict:b proretset:b provolatile:t proparallel:t pronargs:i pronargdefaults:i prorettype:o proargtypes:O "
        "proallargtypes:O proargmodes:T proargnames:T proargdefaults:t protrftypes:O prosrc:t probin:t prosqlbody:t proconfig:T proacl:T"
    ),
    "pg_language": "oid:o lanname:t lanowner:o lanispl:b lanpltrusted:b lanplcallfoid:o laninline:o lanvalidator:o lanacl:T",
    "pg_collation": (
        "oid:o collname:t collnamespace:o collowner:o collprovider:t collisdeterministic:b collencoding:i collcollate:t collctype:t "
        "colliculocale:t collicurules:t collversion:t"
    ),
    "pg_enum": "oid:o enumtypid:o enumsortorder:f enumlabel:t",
    "pg_range": "rngtypid:o rngsubtype:o rngmultitypid:o rngcollation:o rngsubopc:o rngcanonical:t rngsubdiff:t",
    "pg_sequence": "seqrelid:o seqtypid:o seqstart:o seqincrement:o seqmax:o seqmin:o seqcache:o seqcycle:b",
    "pg_trigger": (
        "oid:o tgrelid:o tgparentid:o tgname:t tgfoid:o tgtype:i tgenabled:t tgisinternal:b tgconstrrelid:o tgconstrindid:o "
        "tgconstraint:o tgdeferrable:b tginitdeferred:b tgnargs:i tgattr:O tgargs:t tgqual:t tgoldtable:t tgnewtable:t"
    ),
    "pg_rewrite": "oid:o rulename:t ev_class:o ev_type:t ev_enabled:t is_instead:b ev_qual:t ev_action:t",
    "pg_policy": "oid:o polname:t polrelid:o polcmd:t polpermissive:b polroles:O polqual:t polwithcheck:t",
    "pg_extension": "oid:o extname:t extowner:o extnamespace:o extrelocatable:b extversion:t extconfig:O extcondition:T",
    "pg_foreign_table": "ftrelid:o ftserver:o ftoptions:T",
    "pg_foreign_server": "oid:o srvname:t srvowner:o srvfdw:o srvtype:t srvversion:t srvacl:T srvoptions:T",
    "pg_foreign_data_wrapper": "oid:o fdwname:t fdwowner:o fdwhandler:o fdwvalidator:o fdwacl:T fdwoptions:T",
    "pg_partitioned_table": "partrelid:o partstrat:t partnatts:i partdefid:o partattrs:O partclass:O partcollation:O partexprs:t",
    "pg_tablespace": "oid:o spcname:t spcowner:o spcacl:T spcoptions:T",
    "pg_operator": "oid:o oprname:t oprnamespace:o oprowner:o oprkind:t oprleft:o oprright:o oprresult:o oprcode:t",
    "pg_opclass": "oid:o opcmethod:o opcname:t opcnamespace:o opcowner:o opcfamily:o opcintype:o opcdefault:b opckeytype:o",
    "pg_opfamily": "oid:o opfmethod:o opfname:t opfnamespace:o opfowner:o",
    "pg_cast": "oid:o castsource:o casttarget:o castfunc:o castcontext:t castmethod:t",
    "pg_aggregate": "aggfnoid:o aggkind:t aggnumdirectargs:i",
    "pg_statistic_ext": "oid:o stxrelid:o stxname:t stxnamespace:o stxowner:o stxstattarget:i stxkeys:O stxkind:T stxexprs:t",
    "pg_publication": "oid:o pubname:t pubowner:o puballtables:b pubinsert:b pubupdate:b pubdelete:b pubtruncate:b pubviaroot:b",
    "pg_publication_rel": "oid:o prpubid:o prrelid:o prqual:t prattrs:O",
    "pg_publication_namespace": "oid:o pnpubid:o pnnspid:o",
    "pg_subscription": "oid:o subdbid:o subname:t subowner:o subenabled:b",
    "pg_event_trigger": "oid:o evtname:t evtevent:t evtowner:o evtfoid:o evtenabled:t evttags:T",
    "pg_db_role_setting": "setdatabase:o setrole:o setconfig:T",
    "pg_default_acl": "oid:o defaclrole:o defaclnamespace:o defaclobjtype:t defaclacl:T",
    "pg_seclabel": "objoid:o classoid:o objsubid:i provider:t label:t",
    "pg_seclabels": "objoid:o classoid:o objsubid:i objtype:t objnamespace:o objname:t provider:t label:t",
    "pg_stat_activity": (
        "datid:o datname:t pid:i usesysid:o usename:t application_name:t client_addr:t client_port:i backend_start:x xact_start:x "
        "query_start:x state_change:x wait_event_type:t wait_event:t state:t query:t backend_type:t"
    ),
    "pg_stat_user_tables": _STAT_TABLES,
    "pg_statio_user_tables": _STATIO_TABLES,
    "pg_stat_all_tables": _STAT_TABLES,
    "pg_stat_sys_tables": _STAT_TABLES,
    "pg_statio_all_tables": _STATIO_TABLES,
    "pg_statio_sys_tables": _STATIO_TABLES,
    "pg_stat_all_indexes": _STAT_INDEXES,
    "pg_stat_user_indexes": _STAT_INDEXES,
    "pg_statio_all_indexes": "relid:o indexrelid:o schemaname:t relname:t indexrelname:t idx_blks_read:o idx_blks_hit:o",
    "pg_statio_user_indexes": "relid:o indexrelid:o schemaname:t relname:t indexrelname:t idx_blks_read:o idx_blks_hit:o",
    "pg_stat_database": (
        "datid:o datname:t numbackends:i xact_commit:o xact_rollback:o blks_read:o blks_hit:o tup_returned:o tup_fetched:o tup_inserted:o "
        "tup_updated:o tup_deleted:o conflicts:o temp_files:o temp_bytes:o deadlocks:o stats_reset:x"
    ),
    "pg_stat_ssl": "pid:i ssl:b version:t cipher:t bits:i client_dn:t client_serial:t issuer_dn:t",
    "pg_stat_replication": "pid:i usesysid:o usename:t application_name:t client_addr:t state:t sync_state:t",
    "pg_replication_slots": "slot_name:t plugin:t slot_type:t datoid:o database:t temporary:b active:b active_pid:i",
    "pg_cursors": "name:t statement:t is_holdable:b is_binary:b is_scrollable:b creation_time:x",
    "pg_prepared_statements": (
        "name:t statement:t prepare_time:x parameter_types:T result_types:T from_sql:b generic_plans:o custom_plans:o"
    ),
    "pg_rules": "schemaname:t tablename:t rulename:t definition:t",
    "pg_policies": "schemaname:t tablename:t policyname:t permissive:t roles:T cmd:t qual:t with_check:t",
    "pg_shadow": "usename:t usesysid:o usecreatedb:b usesuper:b userepl:b usebypassrls:b passwd:t valuntil:x useconfig:T",
    "pg_available_extensions": "name:t default_version:t installed_version:t comment:t",
    "pg_available_extension_versions": "name:t version:t installed:b superuser:b trusted:b relocatable:b schema:t requires:T comment:t",
    "pg_publication_tables": "pubname:t schemaname:t tablename:t attnames:T rowfilter:t",
    "pg_timezone_abbrevs": "abbrev:t utc_offset:t is_dst:b",
    "pg_statistic": "starelid:o staattnum:i stainherit:b stanullfrac:f stawidth:i stadistinct:f",
    "pg_stats_ext": "schemaname:t tablename:t statistics_schemaname:t statistics_name:t statistics_owner:t attnames:T exprs:T kinds:T",
    "pg_shdepend": "dbid:o classid:o objid:o objsubid:i refclassid:o refobjid:o deptype:t",
    "pg_conversion": "oid:o conname:t connamespace:o conowner:o conforencoding:i contoencoding:i conproc:t condefault:b",
    "pg_amop": ("oid:o amopfamily:o amoplefttype:o amoprighttype:o amopstrategy:i amoppurpose:t amopopr:o amopmethod:o amopsortfamily:o"),
    "pg_amproc": "oid:o amprocfamily:o amproclefttype:o amprocrighttype:o amprocnum:i amproc:t",
    "pg_ts_config": "oid:o cfgname:t cfgnamespace:o cfgowner:o cfgparser:o",
    "pg_ts_dict": "oid:o dictname:t dictnamespace:o dictowner:o dicttemplate:o dictinitoption:t",
    "pg_ts_parser": "oid:o prsname:t prsnamespace:o prsstart:t prstoken:t prsend:t prsheadline:t prslextype:t",
    "pg_ts_template": "oid:o tmplname:t tmplnamespace:o tmplinit:t tmpllexize:t",
    "pg_user_mapping": "oid:o umuser:o umserver:o umoptions:T",
    "pg_user_mappings": "umid:o srvid:o srvname:t umuser:o usename:t umoptions:T",
    "pg_init_privs": "objoid:o classoid:o objsubid:i privtype:t initprivs:T",
    "pg_transform": "oid:o trftype:o trflang:o trffromsql:t trftosql:t",
    "pg_file_settings": "sourcefile:t sourceline:i seqno:i name:t setting:t applied:b error:t",
    "pg_stats": "schemaname:t tablename:t attname:t inherited:b null_frac:f avg_width:i n_distinct:f",
    "pg_locks": "locktype:t database:o relation:o pid:i mode:t granted:b",
    "pg_prepared_xacts": "transaction:o gid:t prepared:x owner:t database:t",
    "pg_timezone_names": "name:t abbrev:t utc_offset:t is_dst:b",
}

_TABLE: Final = "table_catalog:t table_schema:t table_name:t"
_CONSTRAINT: Final = "constraint_catalog:t constraint_schema:t constraint_name:t"
_ROUTINE: Final = "specific_catalog:t specific_schema:t specific_name:t"

INFORMATION_TABLES: Final[Mapping[str, str]] = {
    "schemata": (
        "catalog_name:t schema_name:t schema_owner:t default_character_set_catalog:t default_character_set_schema:t "
        "default_character_set_name:t sql_path:t"
    ),
    "tables": (
        f"{_TABLE} table_type:t self_referencing_column_name:t reference_generation:t user_defined_type_catalog:t "
        "user_defined_type_schema:t user_defined_type_name:t is_insertable_into:t is_typed:t commit_action:t"
    ),
    "views": f"{_TABLE} view_definition:t check_option:t is_updatable:t is_insertable_into:t is_trigger_updatable:t",
    "columns": (
        f"{_TABLE} column_name:t ordinal_position:i column_default:t is_nullable:t data_type:t character_maximum_length:i "
        "character_octet_length:i numeric_precision:i numeric_precision_radix:i numeric_scale:i datetime_precision:i interval_type:t "
        "interval_precision:i character_set_catalog:t character_set_schema:t character_set_name:t collation_catalog:t collation_schema:t "
        "collation_name:t domain_catalog:t domain_schema:t domain_name:t udt_catalog:t udt_schema:t udt_name:t scope_catalog:t "
        "scope_schema:t scope_name:t maximum_cardinality:i dtd_identifier:t is_self_referencing:t is_identity:t identity_generation:t "
        "identity_start:t identity_increment:t identity_maximum:t identity_minimum:t identity_cycle:t is_generated:t "
        "generation_expression:t is_updatable:t"
    ),
    "table_constraints": f"{_CONSTRAINT} {_TABLE} constraint_type:t is_deferrable:t initially_deferred:t enforced:t nulls_distinct:t",
    "key_column_usage": f"{_CONSTRAINT} {_TABLE} column_name:t ordinal_position:i position_in_unique_constraint:i",
    "constraint_column_usage": f"{_TABLE} column_name:t {_CONSTRAINT}",
    "constraint_table_usage": f"{_TABLE} {_CONSTRAINT}",
    "referential_constraints": (
        f"{_CONSTRAINT} unique_constraint_catalog:t unique_constraint_schema:t unique_constraint_name:t match_option:t update_rule:t "
        "delete_rule:t"
    ),
    "check_constraints": f"{_CONSTRAINT} check_clause:t",
    "table_privileges": f"grantor:t grantee:t {_TABLE} privilege_type:t is_grantable:t with_hierarchy:t",
    "role_table_grants": f"grantor:t grantee:t {_TABLE} privilege_type:t is_grantable:t with_hierarchy:t",
    "column_privileges": f"grantor:t grantee:t {_TABLE} column_name:t privilege_type:t is_grantable:t",
    "routines": (
        f"{_ROUTINE} routine_catalog:t routine_schema:t routine_name:t routine_type:t data_type:t type_udt_name:t routine_definition:t "
        "external_language:t"
    ),
    "parameters": f"{_ROUTINE} ordinal_position:i parameter_mode:t parameter_name:t data_type:t udt_name:t",
    "sequences": "sequence_catalog:t sequence_schema:t sequence_name:t data_type:t start_value:t minimum_value:t increment:t",
    "triggers": (
        "trigger_catalog:t trigger_schema:t trigger_name:t event_manipulation:t event_object_catalog:t event_object_schema:t "
        "event_object_table:t action_statement:t action_timing:t"
    ),
    "domains": "domain_catalog:t domain_schema:t domain_name:t data_type:t udt_name:t",
    "element_types": "object_catalog:t object_schema:t object_name:t object_type:t collection_type_identifier:t data_type:t",
    "enabled_roles": "role_name:t",
    "applicable_roles": "grantee:t role_name:t is_grantable:t",
    "user_defined_types": "user_defined_type_catalog:t user_defined_type_schema:t user_defined_type_name:t user_defined_type_category:t",
    "column_udt_usage": f"udt_catalog:t udt_schema:t udt_name:t {_TABLE} column_name:t",
    "usage_privileges": (
        "grantor:t grantee:t object_catalog:t object_schema:t object_name:t object_type:t privilege_type:t is_grantable:t"
    ),
    "role_column_grants": f"grantor:t grantee:t {_TABLE} column_name:t privilege_type:t is_grantable:t",
    "routine_privileges": (
        f"grantor:t grantee:t {_ROUTINE} routine_catalog:t routine_schema:t routine_name:t privilege_type:t is_grantable:t"
    ),
    "collations": "collation_catalog:t collation_schema:t collation_name:t pad_attribute:t",
    "foreign_tables": "foreign_table_catalog:t foreign_table_schema:t foreign_table_name:t foreign_server_name:t",
    "domain_constraints": f"{_CONSTRAINT} domain_catalog:t domain_schema:t domain_name:t is_deferrable:t initially_deferred:t",
    "attributes": "udt_catalog:t udt_schema:t udt_name:t attribute_name:t ordinal_position:i data_type:t attribute_udt_name:t",
    "view_column_usage": f"view_catalog:t view_schema:t view_name:t {_TABLE} column_name:t",
    "character_sets": "character_set_catalog:t character_set_schema:t character_set_name:t character_repertoire:t form_of_use:t",
    "view_table_usage": f"view_catalog:t view_schema:t view_name:t {_TABLE}",
    "information_schema_catalog_name": "catalog_name:t",
}


PG: Final = "pg catalog"
INFORMATION: Final = "information schema"
"""Names of the schemas with these tables; no job's schema is called so."""
SYSTEM: Final = frozenset({PG, INFORMATION})
USER: Final = "skyband"
DATABASE: Final = "skyband"
FIRST_OID: Final = 16384
_OWNER: Final = 10
_LETTERS: Final = {
    "o": pa.uint32(), "t": pa.string(), "b": pa.bool_(), "i": pa.int32(), "f": pa.float32(), "x": pa.timestamp("us", "UTC"),
    "O": pa.list_(pa.uint32()), "T": pa.list_(pa.string()),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or a view that is served."""

    schema: str
    name: str
    columns: pa.Schema
    comment: str
    view: bool
    oid: int
    sql: str = ""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A cursor of the connection: its name, the statement that declared it, whether it is binary, whether it outlives its transaction."""

    name: str
    statement: str
    binary: bool
    held: bool


@dataclass(frozen=True, slots=True)
class About:
    """What the catalogs describe: schemas, relations, and the settings and the cursors of the connection."""

    schemas: Sequence[str]
    relations: Sequence[Relation]
    settings: Mapping[str, str]
    cursors: Sequence[Cursor] = ()


def known(schema: str, name: str) -> tuple[str, str] | None:
    """Return where the table ``name`` of the catalogs is, None if it is none of them."""
    if schema.lower() in ("", "pg_catalog") and name.lower() in PG_TABLES:
        return PG, name.lower()
    if schema.lower() == "information_schema" and name.lower() in INFORMATION_TABLES:
        return INFORMATION, name.lower()
    return None


def table(schema: str, name: str, about: About) -> pa.Table:
    """Return one table of the catalogs. O(columns of what is served)."""
    columns = (PG_TABLES if schema == PG else INFORMATION_TABLES)[name]
    kinds = pa.schema([(c.split(":")[0], _LETTERS[c.split(":")[1]]) for c in columns.split()])
    make = _ROWS.get((schema, name))
    rows = [] if make is None else [_full(kinds, row) for row in make(about)]
    return pa.Table.from_pylist(rows, kinds)


def _full(kinds: pa.Schema, row: dict[str, Any]) -> dict[str, Any]:
    """Complete ``row``: what it does not say is zero, false or empty, as PostgreSQL has it for plain tables."""
    empty = {pa.uint32(): 0, pa.int32(): 0, pa.bool_(): False, pa.float32(): 0.0}
    return {f.name: row.get(f.name, empty.get(f.type)) for f in kinds}


def _namespaces(about: About) -> Iterable[dict[str, Any]]:
    for name, oid in _schema_oids(about.schemas).items():
        yield {"oid": oid, "nspname": name, "nspowner": _OWNER}


def _schema_oids(schemas: Sequence[str]) -> dict[str, int]:
    """Return the OIDs of schemas. They end where those of relations begin."""
    return {"pg_catalog": 11, "information_schema": 13000, **{name: FIRST_OID - len(schemas) + i for i, name in enumerate(schemas)}}


def _classes(about: About) -> Iterable[dict[str, Any]]:
    oids = _schema_oids(about.schemas)
    for r in about.relations:
        yield {
            "oid": r.oid, "relname": r.name, "relnamespace": oids[r.schema], "relowner": _OWNER, "relkind": "v" if r.view else "r",
            "relnatts": len(r.columns), "relpersistence": "p", "relreplident": "d", "relam": 0 if r.view else 2, "reltuples": -1.0,
            "relispopulated": True,
        }  # fmt: skip


def _attributes(about: About) -> Iterable[dict[str, Any]]:
    for r in about.relations:
        for number, column in enumerate(r.columns, 1):
            oid = oid_of(column.type)
            yield {
                "attrelid": r.oid, "attname": column.name, "atttypid": oid, "attlen": LENGTHS.get(oid, -1), "attnum": number,
                "atttypmod": modifier(column.type), "attstorage": "p", "attalign": "i", "attidentity": "", "attgenerated": "",
                "attcompression": "", "attndims": int(oid in ELEMENTS), "attislocal": True, "attstattarget": -1,
            }  # fmt: skip


def _described(about: About) -> Iterable[dict[str, Any]]:
    for r in about.relations:
        if r.comment:
            yield {"objoid": r.oid, "classoid": 1259, "objsubid": 0, "description": r.comment}
        for number, column in enumerate(r.columns, 1):
            if comment := comment_of(column):
                yield {"objoid": r.oid, "classoid": 1259, "objsubid": number, "description": comment}


def comment_of(column: pa.Field) -> str:
    """Return the comment of a column, "" if it has none."""
    return str((column.metadata or {}).get(b"comment", b"").decode())


def _types(about: About) -> Iterable[dict[str, Any]]:
    for t in TYPES:
        yield {
            "oid": t.oid, "typname": t.name, "typnamespace": 11, "typowner": _OWNER, "typlen": LENGTHS.get(t.oid, -1), "typtype": "b",
            "typbyval": t.oid in LENGTHS, "typcategory": t.category, "typisdefined": True, "typdelim": ",", "typelem": t.element,
            "typarray": t.array, "typinput": procedure(t, "in"), "typoutput": procedure(t, "out"),
            "typreceive": procedure(t, "recv"), "typsend": procedure(t, "send"), "typmodin": "-", "typmodout": "-", "typanalyze": "-",
            "typalign": "i", "typstorage": "p", "typtypmod": -1,
        }  # fmt: skip


def _functions(about: About) -> Iterable[dict[str, Any]]:
    for name, oid in FUNCTIONS.items():
        yield {"oid": oid, "proname": name, "pronamespace": 11, "proowner": _OWNER, "prokind": "f", "provolatile": "i", "prosrc": name}


def _cursors(about: About) -> Iterable[dict[str, Any]]:
    for c in about.cursors:
        yield {"name": c.name, "statement": c.statement, "is_binary": c.binary, "is_holdable": c.held}


def _rules(about: About) -> Iterable[dict[str, Any]]:
    """Yield the definitions of views, where PostgreSQL has them."""
    for r in about.relations:
        if r.view:
            yield {
                "oid": r.oid,
                "rulename": "_RETURN",
                "ev_class": r.oid,
                "ev_type": "1",
                "ev_enabled": "O",
                "is_instead": True,
                "ev_action": r.sql,
            }


def _databases(about: About) -> Iterable[dict[str, Any]]:
    yield {
        "oid": 5, "datname": DATABASE, "datdba": _OWNER, "encoding": 6, "datlocprovider": "c", "datallowconn": True, "datconnlimit": -1,
        "datcollate": "C", "datctype": "C",
    }  # fmt: skip


def _roles(about: About) -> Iterable[dict[str, Any]]:
    common = {"oid": _OWNER, "rolname": USER, "rolinherit": True, "rolcanlogin": True, "rolconnlimit": -1}
    yield {**common, "usename": USER, "usesysid": _OWNER}


def _settings(about: About) -> Iterable[dict[str, Any]]:
    for name, value in about.settings.items():
        yield {"name": name, "setting": value, "vartype": "string", "context": "user", "source": "session", "boot_val": value}


def _methods(about: About) -> Iterable[dict[str, Any]]:
    yield {"oid": 2, "amname": "heap", "amhandler": "heap_tableam_handler", "amtype": "t"}


def _named(view: bool, keys: Sequence[str]) -> Any:
    def rows(about: About) -> Iterable[dict[str, Any]]:
        return ({keys[0]: r.schema, keys[1]: r.name, keys[2]: USER, "definition": r.sql} for r in about.relations if r.view == view)

    return rows


def _schemata(about: About) -> Iterable[dict[str, Any]]:
    for name in _schema_oids(about.schemas):
        yield {"catalog_name": DATABASE, "schema_name": name, "schema_owner": USER}


def _tables(about: About) -> Iterable[dict[str, Any]]:
    for r in about.relations:
        kind = "VIEW" if r.view else "BASE TABLE"
        yield {
            "table_catalog": DATABASE, "table_schema": r.schema, "table_name": r.name, "table_type": kind, "is_insertable_into": "NO",
            "is_typed": "NO",
        }  # fmt: skip


def _views(about: About) -> Iterable[dict[str, Any]]:
    for r in about.relations:
        if r.view:
            yield {
                "table_catalog": DATABASE,
                "table_schema": r.schema,
                "table_name": r.name,
                "view_definition": r.sql,
                "is_updatable": "NO",
            }


def _columns(about: About) -> Iterable[dict[str, Any]]:
    udt = {t.oid: t.name for t in TYPES}
    for r in about.relations:
        for number, column in enumerate(r.columns, 1):
            oid, decimal = oid_of(column.type), pa.types.is_decimal(column.type)
            yield {
                "table_catalog": DATABASE, "table_schema": r.schema, "table_name": r.name, "column_name": column.name,
                "ordinal_position": number, "is_nullable": "YES", "udt_catalog": DATABASE,
                "data_type": "ARRAY" if oid in ELEMENTS else NAMES[oid],
                "udt_schema": "pg_catalog", "udt_name": udt[oid], "is_identity": "NO", "is_generated": "NEVER", "is_updatable": "NO",
                "numeric_precision": column.type.precision if decimal else None, "numeric_scale": column.type.scale if decimal else None,
                "character_maximum_length": None, "datetime_precision": None, "dtd_identifier": str(number),
            }  # fmt: skip


_ROWS: Final[Mapping[tuple[str, str], Any]] = {
    (PG, "pg_namespace"): _namespaces,
    (PG, "pg_class"): _classes,
    (PG, "pg_attribute"): _attributes,
    (PG, "pg_description"): _described,
    (PG, "pg_type"): _types,
    (PG, "pg_rewrite"): _rules,
    (PG, "pg_database"): _databases,
    (PG, "pg_roles"): _roles,
    (PG, "pg_authid"): _roles,
    (PG, "pg_user"): _roles,
    (PG, "pg_settings"): _settings,
    (PG, "pg_proc"): _functions,
    (PG, "pg_cursors"): _cursors,
    (PG, "pg_am"): _methods,
    (PG, "pg_tables"): _named(False, ("schemaname", "tablename", "tableowner")),
    (PG, "pg_views"): _named(True, ("schemaname", "viewname", "viewowner")),
    (INFORMATION, "schemata"): _schemata,
    (INFORMATION, "tables"): _tables,
    (INFORMATION, "views"): _views,
    (INFORMATION, "columns"): _columns,
}
