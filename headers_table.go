package polite

var builtinTable = []Dialect{
	{Name: "RFC 9110", Retry: "Retry-After"},
	{Name: "Botiga Aroma",
		Limit: "Aroma-RateLimit-Limit", Remaining: "Aroma-RateLimit-Restants, Aroma-RateLimit-Remaining",
		Reset: "Aroma-RateLimit-Reinici, Aroma-RateLimit-Reset", ResetAs: EpochSeconds},
	{Name: "IETF",
		Limit: "RateLimit-Limit", Remaining: "RateLimit-Remaining", Reset: "RateLimit-Reset",
		state: "RateLimit", policies: "RateLimit-Policy"},
	{Name: "X-RateLimit",
		Limit: "X-RateLimit-Limit", Remaining: "X-RateLimit-Remaining", Used: "X-RateLimit-Used",
		Reset: "X-RateLimit-Reset, X-RateLimit-Reset-After", Bucket: "X-RateLimit-Resource, X-RateLimit-Bucket"},
	{Name: "milliseconds", Retry: "Retry-After-Ms, X-Ms-Retry-After-Ms"},
}
