// Package secrettest tests that no log, error, response or standard error contains a secret:
// tokens of callers and approvers, keys of child processes, headers, URLs and clients, and what a
// handler panics with. It runs the servers, the bridge, the gateways and the OAuth client with
// random secrets, at debug level and with failures everywhere, and searches the output.
package secrettest
