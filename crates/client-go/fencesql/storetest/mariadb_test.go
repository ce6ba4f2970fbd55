package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/holdfast/holdfast/crates/client-go/fencesql"
)

// startMariaDB starts a server with the guard of holdfast fence init.
func startMariaDB(t *testing.T) *sql.DB {
	program := os.Getenv("HOLDFAST_BIN")
	if _, err := exec.LookPath("mariadbd"); err != nil || program == "" {
		t.Skip("needs HOLDFAST_BIN and MariaDB")
	}
	folder, err := os.MkdirTemp("", "holdfast-maria")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	data, socket := filepath.Join(folder, "data"), filepath.Join(folder, "socket")
	options := []string{"--no-defaults", "--datadir=" + data}
	if os.Getuid() == 0 {
		options = append(options, "--user=root")
	}
	install := exec.Command("mariadb-install-db", append(options, "--skip-test-db", "--auth-root-authentication-method=normal")...)
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	server := exec.Command("mariadbd", append(options, "--socket="+socket, "--skip-networking", "--pid-file="+filepath.Join(folder, "pid"))...)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	db, err := sql.Open("mysql", fmt.Sprintf("root@unix(%s)/", socket))
	if err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(time.Minute); db.Ping() != nil; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the server does not start")
		}
	}
	if _, err := db.Exec("CREATE DATABASE shop"); err != nil {
		t.Fatal(err)
	}
	db.Close()
	guard, err := exec.Command(program, "fence", "init", "--mysql").Output()
	if err != nil {
		t.Fatal(err)
	}
	apply := exec.Command("mariadb", "--no-defaults", "--socket="+socket, "--user=root", "shop")
	apply.Stdin = strings.NewReader(string(guard))
	if out, err := apply.CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	if db, err = sql.Open("mysql", fmt.Sprintf("root@unix(%s)/shop", socket)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func TestMariaDB(t *testing.T) {
	db := startMariaDB(t)
	raise := func(fence fencesql.Fence) error {
		tx, err := fencesql.Begin(context.Background(), db, fencesql.MySQL, fence)
		if err != nil {
			return err
		}
		return tx.Commit()
	}
	exclusive := func(token int64) error {
		return raise(fencesql.Fence{Resource: "orders", Token: token, Holder: "test"})
	}
	shared := func(token, floor int64) error {
		return raise(fencesql.Fence{Resource: "reports", Token: token, Floor: floor, Holder: "test"})
	}
	if err := errors.Join(exclusive(33), exclusive(34), shared(72, 70), shared(71, 70), shared(73, 72)); err != nil {
		t.Fatal(err)
	}
	var stale *fencesql.StaleError
	if err := exclusive(33); !errors.As(err, &stale) {
		t.Error(err)
	}
	if err := shared(71, 70); !errors.As(err, &stale) {
		t.Error(err)
	}
	if err := exclusive(34); err != nil {
		t.Error(err)
	}
}
