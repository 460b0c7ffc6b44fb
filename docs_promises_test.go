package polite_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestEveryPromiseNamesATestThatExists holds docs/promises.md and SECURITY.md to
// the tests: every row of their tables names at least one, and all exist.
func TestEveryPromiseNamesATestThatExists(t *testing.T) {
	tests := testsOf(t)
	for _, path := range []string{"docs/promises.md", "SECURITY.md"} {
		assertEveryRowIsProved(t, path, provedRows(t, path), tests)
	}
}

// TestEveryFuzzTargetHasSeeds looks for seeds in testdata, which run as tests.
func TestEveryFuzzTargetHasSeeds(t *testing.T) {
	for name := range testsOf(t) {
		folder, target := ".", name
		if dir, rest, ok := strings.Cut(name, "."); ok {
			folder, target = dir, rest
		}
		if !strings.HasPrefix(target, "Fuzz") {
			continue
		}
		seeds, err := os.ReadDir(filepath.Join(folder, "testdata", "fuzz", target))
		assert.NoError(t, err)
		assert.NotEmpty(t, seeds, name)
	}
}
