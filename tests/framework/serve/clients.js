const url = process.argv[2];
const assert = require("assert");
async function nodePg() {
  const { Client } = require("pg");
  const Cursor = require("pg-cursor");
  const c = new Client({ connectionString: url });
  await c.connect();
  const any = await c.query("select rank from two_now where grp = any($1) and rank = any($2) and loyalty_seconds > $3 order by rank", [["p", "q"], [1, 2], -1]);
  assert.ok(any.rows.length > 0 && any.rows[0].rank === 1);
  const kinds = await c.query("select count(*), '{a,b}'::text[] as t, array[1,2] as i, $1::int as n", [5]);
  assert.deepStrictEqual(kinds.rows[0], { count: kinds.rows[0].count, t: ["a", "b"], i: [1, 2], n: 5 });
  const cursor = c.query(new Cursor("select x from range(10) t(x) where x > $1", [2]));
  assert.strictEqual((await cursor.read(3)).length, 3);
  assert.strictEqual((await cursor.read(99)).length, 4);
  await cursor.close();
  await assert.rejects(c.query("drop table two"), { code: "25006" });
  await c.end();
}
async function postgresJs() {
  const postgres = require("postgres");
  const sql = postgres(url, { max: 1 });
  const found = await sql`select rank from two_now where grp = any(${["p", "q"]}) and rank in ${sql([1, 2])} and loyalty_seconds > ${-1.5} order by rank`;
  assert.ok(found.length > 0);
  const [row] = await sql`select array['a', 'b'] as t, '{1,2}'::int[] as i`;
  assert.deepStrictEqual([row.t, row.i], [["a", "b"], [1, 2]]);
  let n = 0;
  await sql`select x from range(10) t(x)`.cursor(4, (rows) => { n += rows.length; });
  assert.strictEqual(n, 10);
  let text = "";
  for await (const part of await sql`copy (select 1, 2) to stdout`.readable()) text += part;
  assert.strictEqual(text, "1\t2\n");
  await sql.end();
}
async function sequelize() {
  const { Sequelize, DataTypes, Op } = require("sequelize");
  const s = new Sequelize(url, { logging: false });
  await s.authenticate();
  const Now = s.define("Now", { grp: { type: DataTypes.TEXT, primaryKey: true }, rank: DataTypes.INTEGER }, { tableName: "two_now", timestamps: false });
  assert.ok((await Now.findAll({ where: { rank: { [Op.in]: [1, 2] } } })).length > 0);
  assert.ok((await Now.count()) > 0);
  const q = s.getQueryInterface();
  assert.ok("rank" in (await q.describeTable({ tableName: "two_now", schema: "cuts" })));
  assert.deepStrictEqual(await q.showIndex({ tableName: "two_now", schema: "cuts" }), []);
  assert.deepStrictEqual(await q.getForeignKeyReferencesForTable({ tableName: "two_now", schema: "cuts" }), []);
  await s.close();
}
async function typeorm() {
  require("reflect-metadata");
  const { DataSource, EntitySchema } = require("typeorm");
  const Now = new EntitySchema({ name: "Now", tableName: "two_now", columns: { grp: { type: "text", primary: true }, rank: { type: "int" } } });
  const d = new DataSource({ type: "postgres", url, schema: "cuts", entities: [Now], synchronize: false, installExtensions: false });
  await d.initialize();
  assert.ok((await d.getRepository(Now).find({ where: { rank: 1 } })).length > 0);
  const runner = d.createQueryRunner();
  const table = await runner.getTable("cuts.two_now");
  assert.deepStrictEqual(table.columns.map((c) => c.name).sort().slice(0, 2), ["as_of", "grp"]);
  assert.ok((await runner.getViews([])).length >= 0);
  await runner.release();
  await d.destroy();
}
const all = { nodePg, postgresJs, sequelize, typeorm };
(async () => {
  let failed = 0;
  for (const [name, f] of Object.entries(all)) {
    try { await f(); console.log(name, "ok"); } catch (e) { failed = 1; console.log(name, e.stack, e.query || "", e.original || ""); }
  }
  process.exit(failed);
})();
