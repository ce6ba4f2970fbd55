// Package fencesql rejects the writes of former lock holders in a database. Each transaction raises the mark of its resource
// to the fencing token first, and fails if the mark is larger. holdfast fence init prints the tables and functions that the
// database needs.
package fencesql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	holdfast "github.com/holdfast/holdfast/crates/client-go"
)

// A Dialect is the kind of a database.
type Dialect int

// The databases for which holdfast fence init prints a guard.
const (
	PostgreSQL Dialect = iota
	MySQL
	SQLite
)

// A Fence names what a transaction protects, and the token of its holder.
type Fence struct {
	Resource string
	Token    int64
	// Floor is the smallest valid token at the grant of a shared lock or a permit; 0 for an exclusive lock.
	Floor int64
	// Holder is shown to rejected callers.
	Holder string
}

// Of returns the fence of a guard. The resource is the lock.
func Of(guard *holdfast.Guard) Fence {
	f := Fence{Resource: guard.Name(), Token: guard.Token(), Holder: guard.Session()}
	if guard.Mode() != holdfast.Exclusive || len(guard.Slots()) > 0 {
		f.Floor = guard.MinValidToken()
	}
	return f
}

// A StaleError: another holder has shown a larger token. Stop, discard what was read, and acquire the lock again.
type StaleError struct {
	Fence Fence
	Err   error // of the database; nil for SQLite
}

func (e *StaleError) Error() string {
	text := fmt.Sprintf("holdfast: the fencing token %d of %q is stale", e.Fence.Token, e.Fence.Resource)
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *StaleError) Unwrap() error { return e.Err }

// A Querier is a *sql.Tx, or a *sql.Conn in a transaction.
type Querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Begin begins a transaction, and raises the mark as its first statement. PostgreSQL runs it at READ COMMITTED, because a
// snapshot from before the mark could lack the last writes of the former holder.
func Begin(ctx context.Context, db *sql.DB, dialect Dialect, fence Fence) (*sql.Tx, error) {
	options := &sql.TxOptions{}
	if dialect == PostgreSQL {
		options.Isolation = sql.LevelReadCommitted
	}
	tx, err := db.BeginTx(ctx, options)
	if err != nil {
		return nil, err
	}
	if err := Raise(ctx, tx, dialect, fence); err != nil {
		return nil, errors.Join(err, ignoreDone(tx.Rollback()))
	}
	return tx, nil
}

// Do runs work in a fenced transaction, and commits it. It begins nothing if the guard is lost. An error of the work rolls the
// transaction back.
func Do(ctx context.Context, db *sql.DB, dialect Dialect, guard *holdfast.Guard, work func(*sql.Tx) error) error {
	if err := guard.Ensure(); err != nil {
		return err
	}
	tx, err := Begin(ctx, db, dialect, Of(guard))
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := work(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// raiseInSQLite is the statement of holdfast fence init. It returns no row for a stale token.
const raiseInSQLite = `INSERT INTO fence (resource, token, holder) SELECT ?1, ?3, ?4 WHERE ?3 <= ?2
    ON CONFLICT (resource) DO UPDATE
   SET holder  = CASE WHEN excluded.token > token THEN excluded.holder ELSE holder END,
       seen_at = CASE WHEN excluded.token > token THEN excluded.seen_at ELSE seen_at END,
       token   = max(token, excluded.token)
 WHERE token <= ?2
RETURNING token`

// Raise raises the mark in a transaction. Call it before the transaction reads.
func Raise(ctx context.Context, q Querier, dialect Dialect, f Fence) error {
	var err error
	switch {
	case dialect == SQLite:
		floor := f.Floor
		if floor == 0 {
			floor = f.Token
		}
		var mark int64
		err = q.QueryRowContext(ctx, raiseInSQLite, f.Resource, f.Token, floor, f.Holder).Scan(&mark)
		if errors.Is(err, sql.ErrNoRows) {
			return &StaleError{Fence: f}
		}
	case dialect == MySQL && f.Floor == 0:
		_, err = q.ExecContext(ctx, "CALL fence_check(?, ?, ?)", f.Resource, f.Token, f.Holder)
	case dialect == MySQL:
		_, err = q.ExecContext(ctx, "CALL fence_check_shared(?, ?, ?, ?)", f.Resource, f.Token, f.Floor, f.Holder)
	case f.Floor == 0:
		_, err = q.ExecContext(ctx, "SELECT fence_check($1, $2, $3)", f.Resource, f.Token, f.Holder)
	default:
		_, err = q.ExecContext(ctx, "SELECT fence_check_shared($1, $2, $3, $4)", f.Resource, f.Token, f.Floor, f.Holder)
	}
	if isStale(err) {
		return &StaleError{Fence: f, Err: err}
	}
	return err
}

// isStale recognises the SQLSTATE of a stale token. Drivers of PostgreSQL have a method for it; others show it in the text.
func isStale(err error) bool {
	if err == nil {
		return false
	}
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		return coded.SQLState() == "FN001"
	}
	return strings.Contains(err.Error(), "FN001")
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}
