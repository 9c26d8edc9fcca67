// Package frontend is what HTTP handlers that call tools share: admission, limits and the
// count of requests, errors as clients get them, and the names of tools by their servers.
package frontend
