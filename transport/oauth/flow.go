package oauth

import (
	"context"

	"golang.org/x/oauth2"
)

// A Flow is a way to get a token: [*CodeFlow], [*ClientCredentials], [*JWTBearer] or
// [*EnterpriseManaged].
type Flow interface {
	// check says what is wrong with the flow as it was configured.
	check(opts *ClientOptions) error
	// token gets one. Its errors are those of this package, or of the network.
	token(ctx context.Context, ask *ask) (*oauth2.Token, error)
}
