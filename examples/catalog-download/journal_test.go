package main

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	politetest "botigaaroma.example/polite/httptest"
)

func items(texts ...string) (all []item) {
	for _, text := range texts {
		all = append(all, item(text))
	}
	return all
}

// begun is a file with one page that a crash has left.
func begun(t *testing.T) string {
	path := outFile(t)
	j, err := openJournal(path, false)
	require.NoError(t, err)
	require.NoError(t, j.append(items(`{"id": 1}`, `{"id": 2}`), "behind 2"))
	require.NoError(t, j.file.Close())
	return path
}

func content(t *testing.T, path string) string {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

func TestResumeCutsOffWhatTheStateDoesNotVouchFor(t *testing.T) {
	for name, tail := range map[string]string{
		"nothing":         "",
		"half a line":     `{"id`,
		"whole lines":     "{\"id\":3}\n{\"id\":4}\n",
		"without its end": `{"id":3}`,
	} {
		t.Run(name, func(t *testing.T) {
			path := begun(t)
			require.NoError(t, os.WriteFile(path, []byte(content(t, path)+tail), 0o644))
			j, err := openJournal(path, true)
			require.NoError(t, err)
			assert.Equal(t, "behind 2", j.Checkpoint)
			assert.Equal(t, 2, j.Items)
			require.NoError(t, j.append(items(`{"id": 3}`), "behind 3"))
			require.NoError(t, j.finish())
			require.NoError(t, j.close())
			assert.Equal(t, "{\"id\":1}\n{\"id\":2}\n{\"id\":3}\n", content(t, path))
		})
	}
}

// A file of the user's that happens to have the name of the state is left alone.
func TestStateOfAnotherProgramIsNotReplaced(t *testing.T) {
	for name, prepare := range map[string]func(path string) error{
		"text":   func(path string) error { return os.WriteFile(path+".state", []byte("mine\n"), 0o644) },
		"object": func(path string) error { return os.WriteFile(path+".state", []byte(`{"mine":1}`), 0o644) },
		"folder": func(path string) error { return os.Mkdir(path+".state", 0o755) },
		"text, and an empty file": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o644), os.WriteFile(path+".state", []byte("mine\n"), 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := outFile(t)
			require.NoError(t, prepare(path))
			before, err := os.Stat(path + ".state")
			require.NoError(t, err)
			for _, args := range [][]string{{"-out", path, "-resume"}, {"-out", path}} {
				got := invoke(t, append(args, "-url", "http://127.0.0.1:1")...)
				assert.Equal(t, exitUsage, got.code)
				assert.Equal(t, 1, strings.Count(got.stderr, "\n"), got.stderr)
			}
			after, err := os.Stat(path + ".state")
			require.NoError(t, err)
			assert.Equal(t, before.Size(), after.Size())
			assert.True(t, os.SameFile(before, after))
			assert.NoFileExists(t, path+".state.new")
		})
	}
}

func TestResumeStartsWhereThereIsNothing(t *testing.T) {
	for name, prepare := range map[string]func(path string) error{
		"no file":             func(string) error { return nil },
		"empty file":          func(path string) error { return os.WriteFile(path, nil, 0o644) },
		"file without a page": func(path string) error { return os.WriteFile(path+".state", []byte("{}"), 0o644) },
		"file gone, state of a longer one": func(path string) error {
			return os.WriteFile(path+".state", []byte(`{"items":9,"bytes":99,"checkpoint":"x"}`), 0o644)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := outFile(t)
			require.NoError(t, prepare(path))
			j, err := openJournal(path, true)
			require.NoError(t, err)
			assert.Equal(t, state{}, j.state)
			require.NoError(t, j.append(items(`1`), "behind 1"))
			require.NoError(t, j.close())
			assert.Equal(t, "1\n", content(t, path))
		})
	}
}

func TestResumeRefusesAFileThatIsNotItsOwn(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"no state":       func(path string) error { return os.Remove(path + ".state") },
		"damaged state":  func(path string) error { return os.WriteFile(path+".state", []byte(`{"items":`), 0o644) },
		"negative state": func(path string) error { return os.WriteFile(path+".state", []byte(`{"bytes":-1}`), 0o644) },
		"shorter file":   func(path string) error { return os.Truncate(path, 3) },
		"other lines":    func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("x", 50)), 0o644) },
		"complete and grown": func(path string) error {
			return os.WriteFile(path+".state", []byte(`{"bytes":9,"complete":true}`), 0o644)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := begun(t)
			require.NoError(t, change(path))
			before := content(t, path)
			_, err := openJournal(path, true)
			var unusable *unusableError
			require.ErrorAs(t, err, &unusable)
			assert.Equal(t, before, content(t, path), "it is left alone")
		})
	}
}

func TestFileIsWrittenByOneDownloadAtATime(t *testing.T) {
	path := outFile(t)
	first, err := openJournal(path, false)
	require.NoError(t, err)
	require.NoError(t, first.append(items(`1`), "behind 1"))
	_, err = openJournal(path, true)
	if err == nil {
		t.Skip("this system has no file locks")
	}
	assert.ErrorContains(t, err, "is being written by another download")
	require.NoError(t, first.close())
	assert.Equal(t, "1\n", content(t, path))
}

func TestFailedPageLeavesTheOneBefore(t *testing.T) {
	path := outFile(t)
	j, err := openJournal(path, false)
	require.NoError(t, err)
	require.NoError(t, j.append(items(`1`), "behind 1"))
	require.NoError(t, os.Mkdir(path+".state.new", 0o755)) // the state cannot be written
	require.Error(t, j.append(items(`2`), "behind 2"))
	require.NoError(t, j.close())
	assert.Equal(t, "1\n", content(t, path))
	var s state
	require.NoError(t, json.Unmarshal([]byte(content(t, path+".state")), &s))
	assert.Equal(t, state{Items: 1, Bytes: 2, Checkpoint: "behind 1"}, s)
}

func TestResumeOfACompleteFileAsksForNothing(t *testing.T) {
	url, out := serve(t, "offset", 250), outFile(t)
	require.Equal(t, exitDone, invoke(t, "-url", url, "-out", out).code)
	got := invoke(t, "-url", "http://127.0.0.1:1/v1/cafes", "-out", out, "-resume") // nobody listens there
	assert.Equal(t, exitDone, got.code, got.stderr)
	assert.Equal(t, out+" is complete: 250 items, nothing to do; to download anew, name another -out\n", got.stdout)
	requireCatalog(t, out, 250)
}

func TestResumeOfAnotherCollectionIsRefused(t *testing.T) {
	server := politetest.Must(t, politetest.Config{Coffees: 250, Limit: politetest.Limit{N: -1}})
	server.Script(politetest.Pass(), politetest.Respond(404).Times(-1))
	url, stop, err := server.Listen("127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, stop()) }()
	out := outFile(t)
	require.Equal(t, exitFailed, invoke(t, "-url", url, "-out", out, "-concurrency", "1").code)
	got := invoke(t, "-url", url+"/v1/tes", "-out", out, "-resume")
	assert.Equal(t, exitUsage, got.code)
	assert.Contains(t, got.stderr, "bad checkpoint")
	requireCatalog(t, out, 100)
}

// The program is killed in the middle, again and again, wherever it happens to
// be, until one run comes through.
func TestKilledDownloadResumesWithEachItemOnce(t *testing.T) {
	t.Parallel()
	const coffees = 3000
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	shop := politetest.Must(t, politetest.Config{Coffees: coffees, Limit: politetest.Limit{N: -1}})
	var until atomic.Int64 // pages to go until the kill
	reached := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shop.ServeHTTP(w, r)
		if until.Add(-1) == 0 {
			reached <- struct{}{}
		}
	}))
	defer server.Close()
	out := outFile(t)
	kills := 0
	for range 200 {
		until.Store(1 + random.Int64N(4))
		program := child(t, "-url", server.URL, "-out", out, "-resume", "-concurrency", "1")
		ended := make(chan error, 1)
		go func() { ended <- program.Wait() }() // ends when the process does
		select {
		case err := <-ended:
			require.NoError(t, err)
			t.Logf("complete after %d kills", kills)
			require.Greater(t, kills, 5)
			requireCatalog(t, out, coffees)
			return
		case <-reached:
			time.Sleep(time.Duration(random.Int64N(int64(3 * time.Millisecond)))) // anywhere in the page's way to the disk
			_ = program.Process.Kill()                                            // it may have ended by now
			<-ended
			kills++
		}
	}
	t.Fatal("no run came to the end")
}

func TestInterruptStopsAtOnceAndLeavesAValidFile(t *testing.T) {
	t.Parallel()
	shop := politetest.Must(t, politetest.Config{Limit: politetest.Limit{N: 2, Per: time.Hour}})
	url, stop, err := shop.Listen("127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, stop()) }()
	out := outFile(t)
	program := child(t, "-url", url, "-out", out)
	require.Eventually(t, func() bool { data, _ := os.ReadFile(out); return strings.Count(string(data), "\n") >= 100 }, 10*time.Second, 5*time.Millisecond)
	require.NoError(t, program.Process.Signal(os.Interrupt))
	err = program.Wait()
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit), err)
	assert.Equal(t, exitFailed, exit.ExitCode())
	assert.Contains(t, program.Stderr.(*strings.Builder).String(), "catalog-download: stopped; "+out+" holds ")
	got := content(t, out)
	requireCatalog(t, out, strings.Count(got, "\n"))
}

// child starts the program as a process of its own.
func child(t *testing.T, args ...string) *exec.Cmd {
	self, err := os.Executable()
	require.NoError(t, err)
	program := exec.CommandContext(t.Context(), self, args...)
	program.Env = append(os.Environ(), asProgram+"=1")
	program.Stderr = &strings.Builder{}
	require.NoError(t, program.Start())
	return program
}
