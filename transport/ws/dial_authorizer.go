package ws

import "github.com/dovetail-go/dovetail/internal/webclient"

// An Authorizer gets requests admitted by servers that refuse strangers, such as an
// *oauth.Client. Package streamable has the same type, and tells its methods.
type Authorizer = webclient.Authorizer
