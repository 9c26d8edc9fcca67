// Package porttest chooses TCP ports for servers that tests start as processes and that must be given a port.
package porttest
