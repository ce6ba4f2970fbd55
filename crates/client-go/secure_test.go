package holdfast_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	holdfast "github.com/holdfast/holdfast/crates/client-go"
	"github.com/holdfast/holdfast/crates/client-go/internal/testcluster"
)

func TestTLSAndAnAccessTokenThatIsReplaced(t *testing.T) {
	cluster := testcluster.Start(t, 1, "--secure")
	if cluster.CA == "" || cluster.AccessTokenFile == "" {
		t.Fatal("holdfast dev names no CA and no access token", cluster)
	}
	config := holdfast.Config{CA: cluster.CA, AccessTokenFile: cluster.AccessTokenFile}
	_, guard := mustLock(t, newClient(t, cluster, config), "secret")
	if err := guard.Release(); err != nil {
		t.Error(err)
	}

	_, _, err := newClient(t, cluster, holdfast.Config{CA: cluster.CA}).TryLock(background(t), "secret")
	expectCode(t, err, "unauthenticated")
	var unavailable *holdfast.UnavailableError
	_, _, err = newClient(t, &testcluster.Cluster{Addresses: []string{"https://" + cluster.Addresses[0]}}, holdfast.Config{}).TryLock(background(t), "secret")
	if !errors.As(err, &unavailable) {
		t.Error("an unknown CA:", err)
	}

	// A wrong token in the file is used until another program replaces it.
	token, err := os.ReadFile(cluster.AccessTokenFile)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(string(token))
	client := newClient(t, cluster, holdfast.Config{CA: cluster.CA, AccessTokenFile: file})
	_, guard = mustLock(t, client, "rotated")
	write("hf_wrong")
	done := make(chan error, 1)
	go func() { done <- guard.Release() }()
	write(string(token))
	if err := <-done; err != nil {
		t.Error(err)
	}
}
