// Package frontendtest has the servers, logs and options that the tests of bridge/gateway and
// bridge/toolserver share.
package frontendtest
