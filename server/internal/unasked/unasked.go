// Package unasked tells a test kit that a function has opened a question and has not returned its
// error, so that the question was not asked. A [context.Context] carries the report from the
// transport of the test to the server.
package unasked

import "context"

type reportKey struct{}

// WithReport returns a context for connections and requests. The server calls report, which may be
// called concurrently, with a text for each call whose function left out a question.
func WithReport(ctx context.Context, report func(text string)) context.Context {
	return context.WithValue(ctx, reportKey{}, report)
}

// Report calls the report of the context of a call, if there is one.
func Report(ctx context.Context, text string) {
	if report, ok := ctx.Value(reportKey{}).(func(text string)); ok {
		report(text)
	}
}
