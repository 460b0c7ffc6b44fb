//go:build !unix

package main

// lock does nothing where the standard library has no file locks.
func (j *journal) lock() error { return nil }

// syncDir does nothing where directories cannot be flushed.
func syncDir(string) error { return nil }
