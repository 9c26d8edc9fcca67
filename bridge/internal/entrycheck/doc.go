// Package entrycheck makes the entries of a server's lists valid by the schema of MCP. Some clients refuse a
// complete list for one entry that is not valid, so whatever passes on the entries of other servers checks them here.
package entrycheck
