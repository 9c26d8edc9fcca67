package streamable

import "github.com/dovetail-go/dovetail/internal/webclient"

// An Authorizer gets requests admitted by servers that refuse strangers. An
// *oauth.Client is one; another type needs these methods, which are called
// concurrently:
//
//	Authorize(ctx context.Context, server *url.URL, req *http.Request) error
//	Challenged(ctx context.Context, server *url.URL, req *http.Request, res *http.Response) (again bool, err error)
//
// Authorize adds to the header of a request what the server, which is the URL that was
// dialled, wants to see. Challenged is told of an answer with the status 401 or 403, and
// says whether to authorize and send the request once more, which happens three times at
// most. Packages sse and ws have the same type.
type Authorizer = webclient.Authorizer
