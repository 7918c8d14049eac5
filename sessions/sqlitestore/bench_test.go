package sqlitestore_test

import (
	"path/filepath"
	"testing"

	"github.com/acpgate/acpgate/sessions"
	"github.com/acpgate/acpgate/sessions/storetest"
)

func BenchmarkAppend200Sessions(b *testing.B) {
	storetest.BenchmarkAppend(b, func(t testing.TB) sessions.Store { return openAt(t, filepath.Join(t.TempDir(), "acpgate.db")) })
}
