//go:build unix

package main

import (
	"errors"
	"fmt"
	"syscall"
)

// lock keeps a second download out of the same file. The system gives the lock
// back when the process ends, however it ends.
func (j *journal) lock() error {
	err := syscall.Flock(int(j.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return &unusableError{fmt.Errorf("%s is being written by another download", j.path)}
	}
	return nil // file systems without locks go without
}
