// Package fencesql rejects the writes of former lock holders in a database. Each transaction raises the mark of its resource
// to the fencing token first, and fails if the mark is larger. holdfast fence init prints the tables and functions that the
// database needs.
package fencesql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
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
	// Floor is the smallest valid token at the grant of a shared lock or a permit; 0 for an exclusive lock or one slot.
	Floor int64
	// Holder is shown to rejected callers.
	Holder string
}

// Of returns the fence of a guard. The resource is the lock. For another resource of the same holders, change the field.
func Of(guard *holdfast.Guard) Fence {
	f := Fence{Resource: guard.Name(), Token: guard.Token(), Holder: guard.Session()}
	if guard.Mode() != holdfast.Exclusive || len(guard.Slots()) > 0 {
		f.Floor = guard.MinValidToken()
	}
	return f
}

// OfSlot returns the fence of one slot of a guard: pool#3. A slot has one holder at a time, so its mark rises to the whole token.
// It fails if the guard does not have the slot.
func OfSlot(guard *holdfast.Guard, slot int) (Fence, error) {
	if !slices.Contains(guard.Slots(), slot) {
		return Fence{}, fmt.Errorf("holdfast: the guard of %q has the slots %v, not %d", guard.Name(), guard.Slots(), slot)
	}
	return Fence{Resource: fmt.Sprintf("%s#%d", guard.Name(), slot), Token: guard.Token(), Holder: guard.Session()}, nil
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

// A Querier is a *sql.Tx, or a *sql.Conn in a transaction. A *sql.DB is rejected: it has no transaction.
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

// raiseInPostgreSQL also sets what the trigger of a guarded table reads. The settings end with the transaction.
const raiseInPostgreSQL = `SELECT fence_check_shared($1::text, $2::bigint, $3::bigint, $4::text),
       set_config('fence.resource', $1::text, true), set_config('fence.token', $2::bigint::text, true),
       set_config('fence.floor', $3::bigint::text, true), set_config('fence.holder', $4::text, true)`

// Raise raises the mark in a transaction. Call it before the transaction reads.
func Raise(ctx context.Context, q Querier, dialect Dialect, f Fence) error {
	if _, isPool := q.(interface{ Stats() sql.DBStats }); isPool {
		return errors.New("holdfast: a pool of connections has no transaction: call Begin or Do, or pass a *sql.Tx")
	}
	floor := f.Floor
	if floor == 0 {
		floor = f.Token
	}
	var err error
	switch dialect {
	case SQLite:
		var mark int64
		err = q.QueryRowContext(ctx, raiseInSQLite, f.Resource, f.Token, floor, f.Holder).Scan(&mark)
		if errors.Is(err, sql.ErrNoRows) {
			return &StaleError{Fence: f}
		}
	case MySQL:
		_, err = q.ExecContext(ctx, "CALL fence_check_shared(?, ?, ?, ?)", f.Resource, f.Token, floor, f.Holder)
	default:
		_, err = q.ExecContext(ctx, raiseInPostgreSQL, f.Resource, f.Token, floor, f.Holder)
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
