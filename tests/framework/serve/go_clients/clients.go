// Ask a server of results by pgx, as a pool, by the simple protocol and through database/sql.
package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
)

const filtered = "select rank from two_now where grp = any($1) and rank = any($2) and loyalty_seconds > $3 order by rank"

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func want(ok bool, what ...any) {
	if !ok {
		panic(fmt.Sprint(what...))
	}
}

func ranks(rows pgx.Rows, err error) []int32 {
	must(err)
	found, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	must(err)
	return found
}

func onePgx(ctx context.Context, url string) {
	conn, err := pgx.Connect(ctx, url)
	must(err)
	defer conn.Close(ctx)
	found := ranks(conn.Query(ctx, filtered, []string{"p", "q"}, []int32{1, 2}, -1.5))
	want(len(found) > 0 && found[0] == 1, found)
	var texts []string
	var numbers []int64
	var n int32
	var at time.Time
	must(conn.QueryRow(ctx, "select '{a,b}'::text[], array[1::bigint, 2], $1::int, $2::timestamptz", 5, time.Unix(1e9, 0)).Scan(&texts, &numbers, &n, &at))
	want(len(texts) == 2 && len(numbers) == 2 && n == 5 && at.Unix() == 1e9, texts, numbers, n, at)
	batch := &pgx.Batch{}
	batch.Queue("select 1 + $1::int", 1)
	batch.Queue("select count(*) from two_now")
	results := conn.SendBatch(ctx, batch)
	must(results.QueryRow().Scan(&n))
	want(n == 2, n)
	var rows int64
	must(results.QueryRow().Scan(&rows))
	want(rows > 0, rows)
	must(results.Close())
	var copied bytes.Buffer
	_, err = conn.PgConn().CopyTo(ctx, &copied, "copy (select 1, 2) to stdout")
	must(err)
	want(copied.String() == "1\t2\n", copied.String())
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	must(err)
	want(len(ranks(tx.Query(ctx, "select rank from two_now where grp = $1", "p"))) > 0)
	must(tx.Commit(ctx))
	_, err = conn.Exec(ctx, "drop table two")
	var said *pgconn.PgError
	want(errors.As(err, &said) && said.Code == "25006", err)
	_, err = conn.CopyFrom(ctx, pgx.Identifier{"two_now"}, []string{"rank"}, pgx.CopyFromRows([][]any{{int32(1)}}))
	want(err != nil, "rows were copied in")
	must(conn.Ping(ctx))
}

func simple(ctx context.Context, url string) {
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeCacheDescribe} {
		config, err := pgx.ParseConfig(url)
		must(err)
		config.DefaultQueryExecMode = mode
		conn, err := pgx.ConnectConfig(ctx, config)
		must(err)
		found := ranks(conn.Query(ctx, filtered, []string{"p", "q"}, []int32{1, 2}, -1.5))
		want(len(found) > 0 && found[0] == 1, mode, found)
		found = ranks(conn.Query(ctx, "select rank from two_now where grp = $1 limit $2", "p", 1))
		want(len(found) == 1, mode, found)
		must(conn.Close(ctx))
	}
}

func pool(ctx context.Context, url string) {
	pool, err := pgxpool.New(ctx, url)
	must(err)
	defer pool.Close()
	done := make(chan error, 8)
	for i := range 8 {
		go func() {
			var n int
			err := pool.QueryRow(ctx, "select $1::int + count(*)::int from two_now", i).Scan(&n)
			if err == nil && n <= i {
				err = fmt.Errorf("%d rows", n-i)
			}
			done <- err
		}()
	}
	for range 8 {
		must(<-done)
	}
}

func standard(ctx context.Context, url string) {
	db, err := sql.Open("pgx", url)
	must(err)
	defer db.Close()
	statement, err := db.PrepareContext(ctx, "select grp, slope from two_now where rank = $1 order by grp")
	must(err)
	rows, err := statement.QueryContext(ctx, 1)
	must(err)
	count := 0
	for rows.Next() {
		var group string
		var slope sql.NullFloat64
		must(rows.Scan(&group, &slope))
		count++
	}
	must(rows.Err())
	types, err := db.QueryContext(ctx, "select * from two_now limit 0")
	must(err)
	columns, err := types.ColumnTypes()
	must(err)
	want(count > 0 && len(columns) > 3, count, len(columns))
	must(types.Close())
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for _, client := range []struct {
		name string
		run  func(context.Context, string)
	}{{"pgx", onePgx}, {"simple", simple}, {"pool", pool}, {"sql", standard}} {
		client.run(ctx, os.Args[1])
		fmt.Println(client.name, "ok")
	}
}
