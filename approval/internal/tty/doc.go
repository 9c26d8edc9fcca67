// Package tty controls terminals.
package tty
