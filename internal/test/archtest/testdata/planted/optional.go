package planted

import "github.com/dovetail-go/dovetail/transport"

type (
	opener interface{ Open() error }
	closer interface{ Close() error }
	file   struct{}
)

func optional(value any) {
	_, _ = value.(interface{ Close() error }) // want "an interface without a name"
	_, _ = value.(closer)                     // want "planted.closer is not in the table"
	_, _ = value.(transport.CallPeer)         // want "transport.CallPeer is not in the table"
	_, _ = value.(opener)
	_, _ = value.(*file)
	switch value.(type) {
	case closer:
	}
}
