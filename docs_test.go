package polite_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	// testFunction is a name that go test runs.
	testFunction = regexp.MustCompile(`^(Test|Fuzz|Example|Benchmark)([^a-z]|$)`)
	// caseID is the number of a case of docs/cases.md.
	caseID = regexp.MustCompile(`\bC\d{3}\b`)
	// citedCases is the sentence of a doc comment that says what a test proves.
	citedCases = regexp.MustCompile(`\bCases?\s+C\d{3}(?:,\s+C\d{3})*\.`)
	// quoted is what stands between backticks.
	quoted = regexp.MustCompile("`([^`]+)`")
)

// testsOf returns the doc comment of every test, fuzz target, example and
// benchmark of this repository by its name: bare for the root package
// ("TestGet"), with the folder elsewhere ("httptest.TestServer",
// "catalog-download.TestRun").
func testsOf(t testing.TB) map[string]string {
	t.Helper()
	tests := make(map[string]string)
	require.NoError(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !testFunction.MatchString(f.Name.Name) {
				continue
			}
			name := f.Name.Name
			if dir := filepath.Dir(path); dir != "." {
				name = filepath.Base(dir) + "." + name
			}
			tests[name] = f.Doc.Text()
		}
		return nil
	}))
	return tests
}

// provedRow is a row of a table whose last column names tests.
type provedRow struct {
	line  int
	cells []string // of every column, the last one included
	tests []string // the names between backticks in the last column
}

// provedRows reads the rows below the headings of every table of a document.
func provedRows(t testing.TB, path string) []provedRow {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var rows []provedRow
	body := false // the line of dashes below the heading has been passed
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		switch {
		case !strings.HasPrefix(line, "|"):
			body = false
		case strings.Trim(line, "|-: ") == "":
			body = true
		case body:
			row := provedRow{line: i + 1}
			for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
				row.cells = append(row.cells, strings.TrimSpace(cell))
			}
			for _, m := range quoted.FindAllStringSubmatch(row.cells[len(row.cells)-1], -1) {
				row.tests = append(row.tests, m[1])
			}
			rows = append(rows, row)
		}
	}
	require.NotEmpty(t, rows, "%s has no table", path)
	return rows
}

// assertEveryRowIsProved fails for a row that names no test, or one that does
// not exist.
func assertEveryRowIsProved(t testing.TB, path string, rows []provedRow, tests map[string]string) {
	t.Helper()
	for _, row := range rows {
		assert.NotEmpty(t, row.tests, "%s:%d names no test: %s", path, row.line, row.cells[0])
		for _, name := range row.tests {
			_, exists := tests[name]
			assert.True(t, exists, "%s:%d names %s, which does not exist", path, row.line, name)
		}
	}
}

// TestEveryCaseNamesATestThatExists holds docs/cases.md and the doc comments of
// the tests to one another: a case names exactly the tests that cite it.
func TestEveryCaseNamesATestThatExists(t *testing.T) {
	const path = "docs/cases.md"
	tests := testsOf(t)
	rows := provedRows(t, path)
	assertEveryRowIsProved(t, path, rows, tests)

	citing := make(map[string][]string) // by case
	for name, doc := range tests {
		for _, sentence := range citedCases.FindAllString(doc, -1) {
			for _, id := range caseID.FindAllString(sentence, -1) {
				citing[id] = append(citing[id], name)
			}
		}
	}
	for _, row := range rows {
		id := row.cells[0]
		slices.Sort(row.tests)
		slices.Sort(citing[id])
		assert.Equal(t, strings.Join(row.tests, " "), strings.Join(citing[id], " "), "%s:%d: the tests of %s, and those that cite it", path, row.line, id)
		delete(citing, id)
	}
	for id, names := range citing {
		assert.Fail(t, "a case without a row", "%s does not list %s, which %v cite, or lists it twice", path, id, names)
	}
}
