package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// journal is the output file and the state beside it, which can never disagree:
//
//   - a page's lines are written and flushed to the disk first,
//   - then the state, which tells the file's length and the checkpoint behind
//     its last item, replaces the one before it in one step (a rename).
//
// Whatever a crash leaves behind that length was never vouched for, and is cut
// off when the download resumes. The state stays when the catalog is complete,
// so that -resume knows that there is nothing left to do.
type journal struct {
	path   string
	file   *os.File
	device bool // no regular file but a pipe or a terminal: written as it comes, no state
	fresh  bool // begun by this run, which removes it again if nothing comes
	state
}

// state is what the file is known to hold. It is stored as JSON.
type state struct {
	Scheme     string `json:"scheme,omitempty"` // -scheme
	Items      int    `json:"items"`
	Bytes      int64  `json:"bytes"`
	Checkpoint string `json:"checkpoint,omitempty"` // where to go on
	Complete   bool   `json:"complete"`
}

// openJournal begins a file, or with resume goes on with one. Errors are
// *unusableError if the file is not one that may be written.
func openJournal(path string, resume bool) (*journal, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return beginJournal(path)
	case err != nil:
		return nil, &unusableError{err}
	case info.IsDir():
		return nil, &unusableError{fmt.Errorf("%s is a directory", path)}
	case !info.Mode().IsRegular():
		return openDevice(path, resume)
	case !resume:
		return nil, &unusableError{fmt.Errorf("%s exists; go on with it by -resume, or download anew into another -out", path)}
	}
	return resumeJournal(path)
}

// beginJournal creates the file, which must not exist.
func beginJournal(path string) (*journal, error) {
	if err := (&journal{path: path}).ownsState(); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, &unusableError{err}
	}
	j := &journal{path: path, file: file, fresh: true}
	if err := j.lock(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if err := j.save(); err != nil {
		return nil, errors.Join(err, j.close())
	}
	return j, nil
}

func openDevice(path string, resume bool) (*journal, error) {
	if resume {
		return nil, &unusableError{fmt.Errorf("%s is no regular file; it cannot be resumed", path)}
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return nil, &unusableError{err}
	}
	return &journal{path: path, file: file, device: true}, nil
}

// resumeJournal goes on behind the last item that the state vouches for.
func resumeJournal(path string) (*journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, &unusableError{err}
	}
	j := &journal{path: path, file: file}
	if err = j.lock(); err == nil {
		err = j.restore()
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return j, nil
}

// restore reads the state, compares it with the file and cuts the rest off.
func (j *journal) restore() error {
	info, err := j.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() == 0 { // nothing there, nothing to lose: a start from the beginning
		if err := j.ownsState(); err != nil {
			return err
		}
		return j.save()
	}
	data, err := os.ReadFile(j.statePath())
	if errors.Is(err, fs.ErrNotExist) {
		return &unusableError{fmt.Errorf("%s was not written by this program: there is no %s", j.path, j.statePath())}
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &j.state); err != nil {
		return &unusableError{fmt.Errorf("%s is damaged: %w", j.statePath(), err)}
	}
	if !j.holds(info.Size()) {
		return &unusableError{fmt.Errorf("%s has been changed since %s was written; it cannot be resumed", j.path, j.statePath())}
	}
	if err := j.file.Truncate(j.Bytes); err != nil {
		return err
	}
	_, err = j.file.Seek(j.Bytes, 0)
	return err
}

// ownsState is an error if what the state would replace is another's file.
func (j *journal) ownsState() error {
	data, err := os.ReadFile(j.statePath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &unusableError{err}
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if decoder.Decode(new(state)) != nil {
		return &unusableError{fmt.Errorf("%s exists and is not the state of a download; name another -out", j.statePath())}
	}
	return nil
}

// holds reports whether a file of that size can be the one that the state is
// about: all of it is there, and it ends with a whole line.
func (j *journal) holds(size int64) bool {
	switch {
	case j.Bytes < 0 || j.Items < 0 || j.Bytes > size || j.Complete && j.Bytes != size:
		return false
	case j.Bytes == 0:
		return true
	}
	end := make([]byte, 1)
	_, err := j.file.ReadAt(end, j.Bytes-1)
	return err == nil && end[0] == '\n'
}

// pagedBy notes the scheme of the pages. Only the one that a file was begun with
// can go on with it.
func (j *journal) pagedBy(scheme string) error {
	if j.Scheme != "" && j.Scheme != scheme {
		return &unusableError{fmt.Errorf("%s was begun with -scheme %s, not %s; resume with that", j.path, j.Scheme, scheme)}
	}
	j.Scheme = scheme
	return nil
}

// append stores the items of one page and where to go on behind them.
func (j *journal) append(items []item, checkpoint string) error {
	var lines bytes.Buffer
	for _, one := range items {
		if err := json.Compact(&lines, one); err != nil { // a line end in it would split it
			return err
		}
		lines.WriteByte('\n')
	}
	if _, err := j.file.Write(lines.Bytes()); err != nil {
		return err
	}
	if !j.device {
		if err := j.file.Sync(); err != nil {
			return err
		}
	}
	next := j.state
	next.Items += len(items)
	next.Bytes += int64(lines.Len())
	next.Checkpoint = checkpoint
	return j.advance(next)
}

// finish notes that the catalog is complete.
func (j *journal) finish() error {
	next := j.state
	next.Complete = true
	return j.advance(next)
}

// advance makes next the state once it is on disk.
func (j *journal) advance(next state) error {
	before := j.state
	j.state = next
	if err := j.save(); err != nil {
		j.state = before
		return err
	}
	return nil
}

// save replaces the state's file in one step.
func (j *journal) save() error {
	if j.device {
		return nil
	}
	data, err := json.Marshal(j.state)
	if err != nil {
		return err
	}
	draft := j.statePath() + ".new"
	err = writeSynced(draft, append(data, '\n'))
	if err == nil {
		err = os.Rename(draft, j.statePath()) // should a power cut undo it, the state before it is as good
	}
	if err != nil {
		return errors.Join(err, remove(draft))
	}
	return nil
}

// close leaves a file that ends with a whole item, or none where none came.
func (j *journal) close() error {
	if j.device {
		return j.file.Close()
	}
	var err error
	if j.fresh && j.Items == 0 && !j.Complete {
		err = errors.Join(remove(j.path), remove(j.statePath()))
	} else {
		err = j.file.Truncate(j.Bytes)
	}
	return errors.Join(err, j.file.Close())
}

func (j *journal) statePath() string { return j.path + ".state" }

func writeSynced(path string, data []byte) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// remove removes a file that need not be there.
func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
