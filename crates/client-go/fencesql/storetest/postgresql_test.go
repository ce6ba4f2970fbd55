// Package storetest tests fencesql with real databases. It is a separate module, because it needs drivers.
package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast/holdfast/crates/client-go/fencesql"
	_ "github.com/lib/pq"
)

// startPostgreSQL starts a server with the guard of holdfast fence init.
func startPostgreSQL(t *testing.T) *sql.DB {
	program := os.Getenv("HOLDFAST_BIN")
	if _, err := exec.LookPath("postgres"); err != nil || program == "" {
		t.Skip("needs HOLDFAST_BIN and PostgreSQL")
	}
	folder, err := os.MkdirTemp("", "holdfast-pg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	asServer := func(name string, arguments ...string) *exec.Cmd {
		if os.Getuid() != 0 {
			return exec.Command(name, arguments...)
		}
		return exec.Command("runuser", append([]string{"-u", "postgres", "--", name}, arguments...)...)
	}
	run := func(command *exec.Cmd) {
		t.Helper()
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatal(err, string(out))
		}
	}
	os.Chmod(folder, 0o777)
	data := filepath.Join(folder, "data")
	run(asServer("initdb", "-D", data, "-U", "postgres", "-A", "trust"))
	start := asServer("pg_ctl", "-D", data, "-w", "-l", filepath.Join(folder, "log"), "-o", "-c listen_addresses= -k "+folder, "start")
	start.Stdout, start.Stderr = nil, nil
	if err := start.Run(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { asServer("pg_ctl", "-D", data, "-m", "immediate", "stop").Run() })
	db, err := sql.Open("postgres", fmt.Sprintf("host=%s user=postgres dbname=postgres sslmode=disable", folder))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	guard, err := exec.Command(program, "fence", "init", "--postgres", "--table", "orders", "--lock", "orders").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"CREATE TABLE orders AS SELECT 7 AS id, 100 AS pieces", string(guard)} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

func sell(db *sql.DB, token int64) error {
	ctx := context.Background()
	tx, err := fencesql.Begin(ctx, db, fencesql.PostgreSQL, fencesql.Fence{Resource: "orders", Token: token, Holder: "test"})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, "UPDATE orders SET pieces = pieces - 1 WHERE id = 7"); err != nil {
		return err
	}
	return tx.Commit()
}

func pieces(t *testing.T, q interface {
	QueryRow(string, ...any) *sql.Row
}) (pieces int) {
	t.Helper()
	if err := q.QueryRow("SELECT pieces FROM orders WHERE id = 7").Scan(&pieces); err != nil {
		t.Fatal(err)
	}
	return pieces
}

func TestPostgreSQL(t *testing.T) {
	db := startPostgreSQL(t)
	t.Run("a former holder writes nothing", func(t *testing.T) {
		if err := errors.Join(sell(db, 33), sell(db, 34)); err != nil {
			t.Fatal(err)
		}
		var stale *fencesql.StaleError
		if err := sell(db, 33); !errors.As(err, &stale) || stale.Fence.Token != 33 {
			t.Error(err)
		}
		if err := sell(db, 34); err != nil || pieces(t, db) != 97 {
			t.Error(err, pieces(t, db))
		}
	})
	t.Run("the new holder reads after the transaction of the old one", func(t *testing.T) {
		ctx, before := context.Background(), pieces(t, db)
		old, err := fencesql.Begin(ctx, db, fencesql.PostgreSQL, fencesql.Fence{Resource: "orders", Token: 40})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			old.Exec("UPDATE orders SET pieces = pieces - 1 WHERE id = 7")
			time.Sleep(300 * time.Millisecond)
			old.Commit()
		}()
		next, err := fencesql.Begin(ctx, db, fencesql.PostgreSQL, fencesql.Fence{Resource: "orders", Token: 41})
		if err != nil {
			t.Fatal(err)
		}
		defer next.Rollback()
		if seen := pieces(t, next); seen != before-1 {
			t.Error(seen, before)
		}
	})
	t.Run("shared holders pass above their floor", func(t *testing.T) {
		raise := func(token, floor int64) error {
			tx, err := fencesql.Begin(context.Background(), db, fencesql.PostgreSQL, fencesql.Fence{Resource: "reports", Token: token, Floor: floor})
			if err != nil {
				return err
			}
			return tx.Commit()
		}
		if err := errors.Join(raise(72, 70), raise(71, 70), raise(73, 72)); err != nil {
			t.Fatal(err)
		}
		var stale *fencesql.StaleError
		if err := raise(71, 70); !errors.As(err, &stale) {
			t.Error(err)
		}
	})
	t.Run("a stricter isolation is refused", func(t *testing.T) {
		tx, err := db.BeginTx(context.Background(), &sql.TxOptions{Isolation: sql.LevelSerializable})
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		err = fencesql.Raise(context.Background(), tx, fencesql.PostgreSQL, fencesql.Fence{Resource: "orders", Token: 99})
		var stale *fencesql.StaleError
		if err == nil || errors.As(err, &stale) {
			t.Error(err)
		}
	})
}
