package polite

import "time"

// builtinTable is the dialects that polite speaks without being told. To add an
// API, add a row; most need none, because the rows without hosts go by the names
// of the fields alone. Give hosts where a name means something else there, or
// where the server refuses with a status of its own. Rows with hosts go before
// rows without; within each kind the first row to claim a name keeps it.
//
// Servers that fit the rows for everybody and so have none of their own: GitLab,
// Reddit, Mastodon, Vimeo, Intercom, Auth0, Okta, X, Twitch,
// DigitalOcean, Cloudflare, Kong, Envoy, Laravel, Spring Cloud Gateway and many
// more; their forms are in the tests.
var builtinTable = []Dialect{
	// The standards.
	{Name: "RFC 9110", Retry: "Retry-After", RefusalsWithHint: []int{402}}, // a quota that is used up, with its end
	{Name: "IETF RateLimit fields", // drafts 00 to 10, and vendors with other values under the names
		Limit:     "RateLimit-Limit, RateLimit-DailyLimit",
		Remaining: "RateLimit-Remaining", Used: "RateLimit-Observed",
		Reset: "RateLimit-Reset, RateLimit-ResetTime", Bucket: "RateLimit-Name",
		state: "RateLimit", policies: "RateLimit-Policy"},

	{Name: "Botiga Aroma",
		Limit:     "Aroma-RateLimit-Limit",
		Remaining: "Aroma-RateLimit-Restants, Aroma-RateLimit-Remaining",
		Reset:     "Aroma-RateLimit-Reinici, Aroma-RateLimit-Reset"},

	// The two families that most servers use, in all their variations.
	{Name: "X-RateLimit",
		Limit:     "X-RateLimit-Limit, X-RateLimit-Max, X-RateLimit-Total, X-RateLimit-Burst-Capacity, X-RateLimit",
		Remaining: "X-RateLimit-Remaining",
		Used:      "X-RateLimit-Used, X-RateLimit-Usage, X-RateLimit-Observed",
		Reset:     "X-RateLimit-Reset, X-RateLimit-Reset-After, X-RateLimit-ResetTime",
		Window:    "X-RateLimit-Interval-Seconds, X-RateLimit-Interval-Milliseconds, X-RateLimit-Window-Size, X-RateLimit-Window, X-RateLimit-Interval",
		Retry:     "X-RateLimit-Retry-After, X-RateLimit-Next",
		Bucket:    "X-RateLimit-Resource, X-RateLimit-Bucket, X-RateLimit-Category",
		rate:      "X-RateLimit-Replenish-Rate, X-RateLimit-FillRate", policies: "X-RateLimit-Policy"},
	{Name: "X-RateLimit by dimension",
		Limit:     "X-RateLimit-Limit-*, X-RateLimit-*-Limit",
		Remaining: "X-RateLimit-Remaining-*, X-RateLimit-*-Remaining",
		Reset:     "X-RateLimit-Reset-*, X-RateLimit-*-Reset"},
	{Name: "X-Rate-Limit",
		Limit:     "X-Rate-Limit-Limit, X-Rate-Limit",
		Remaining: "X-Rate-Limit-Remaining", Used: "X-Rate-Limit-Used",
		Reset:  "X-Rate-Limit-Reset, X-Rate-Limit-Reset-After",
		Window: "X-Rate-Limit-Interval, X-Rate-Limit-Window",
		Retry:  "X-Rate-Limit-Retry-After-Seconds, X-Rate-Limit-Retry-After",
		Bucket: "X-Rate-Limit-Resource"},
	{Name: "X-Rate-Limit by dimension",
		Limit:     "X-Rate-Limit-Limit-*, X-Rate-Limit-*-Limit, X-Rate-Limit-*-Max",
		Remaining: "X-Rate-Limit-Remaining-*, X-Rate-Limit-*-Remaining",
		Reset:     "X-Rate-Limit-Reset-*, X-Rate-Limit-*-Reset",
		Window:    "X-Rate-Limit-*-Interval-Ms"},
	{Name: "a vendor's name before the family's",
		Limit:     "*-RateLimit-Limit, *-Rate-Limit-Limit",
		Remaining: "*-RateLimit-Remaining, *-Rate-Limit-Remaining",
		Used:      "*-RateLimit-Used, *-Rate-Limit-Used",
		Reset:     "*-RateLimit-Reset, *-Rate-Limit-Reset"},

	// Retry hints beside Retry-After, and words about retrying.
	{Name: "milliseconds", Retry: "Retry-After-Ms, X-Ms-Retry-After-Ms", RetryAs: DeltaMilliseconds},
	{Name: "Discord", reach: "X-RateLimit-Scope"},
	{Name: "Traefik", Retry: "X-Retry-In"},
	{Name: "OpenAI", veto: "X-Should-Retry"},
	{Name: "Stripe", veto: "Stripe-Should-Retry"},
	{Name: "AWS", refusal: "X-Amzn-Errortype", refusalWords: []string{
		"Throttling", "ThrottlingException", "ThrottledException", "TooManyRequestsException",
		"RequestLimitExceeded", "RequestThrottled", "ProvisionedThroughputExceededException", "SlowDown"}},
	{Name: "MediaWiki", refusal: "MediaWiki-API-Error", refusalWords: []string{"ratelimited", "maxlag"}},

	// Gateways and APIs with names of their own.
	{Name: "Amazon Selling Partner", perSecond: "X-Amzn-RateLimit-Limit"},
	{Name: "Amazon MWS", Limit: "X-Mws-Quota-Max", Remaining: "X-Mws-Quota-Remaining", Reset: "X-Mws-Quota-ResetsOn"},
	{Name: "Anthropic",
		Limit: "Anthropic-RateLimit-*-Limit", Remaining: "Anthropic-RateLimit-*-Remaining", Reset: "Anthropic-RateLimit-*-Reset"},
	{Name: "Anthropic subscriptions", Policy: "unified",
		Reset:        "Anthropic-RateLimit-Unified-Reset, Anthropic-RateLimit-Unified-*-Reset",
		verdict:      "Anthropic-RateLimit-Unified-Status, Anthropic-RateLimit-Unified-*-Status",
		fractionUsed: "Anthropic-RateLimit-Unified-Utilization, Anthropic-RateLimit-Unified-*-Utilization"},
	{Name: "Auth0 clients", Policy: "client", state: "Auth0-Client-Quota-Limit"},
	{Name: "Auth0 organizations", Policy: "organization", state: "Auth0-Organization-Quota-Limit"},
	{Name: "Azure Resource Manager", named: "X-Ms-RateLimit-Remaining-*"},
	{Name: "Azure Resource Manager, resources", Policy: "resource", named: "X-Ms-RateLimit-Remaining-Resource"},
	{Name: "BigCommerce",
		Limit: "X-Rate-Limit-Requests-Quota", Remaining: "X-Rate-Limit-Requests-Left",
		Reset: "X-Rate-Limit-Time-Reset-Ms", Window: "X-Rate-Limit-Time-Window-Ms", Retry: "X-Rate-Limit-Time-Reset-Ms"},
	{Name: "Binance weight", Unit: "weight", Used: "X-MBX-Used-Weight-*"},
	{Name: "Binance orders", Unit: "orders", Used: "X-MBX-Order-Count-*"},
	{Name: "Brevo", Limit: "X-Sib-RateLimit-Limit", Remaining: "X-Sib-RateLimit-Remaining", Reset: "X-Sib-RateLimit-Reset"},
	{Name: "Bybit", Limit: "X-Bapi-Limit", Remaining: "X-Bapi-Limit-Status", Reset: "X-Bapi-Limit-Reset-Timestamp"},
	{Name: "Etsy, second", Policy: "second", Period: time.Second,
		Limit: "X-Limit-Per-Second", Remaining: "X-Remaining-This-Second, X-Remaining-This-Secon"}, // sent with and without the d
	{Name: "Etsy, day", Policy: "day", Period: 24 * time.Hour, Limit: "X-Limit-Per-Day", Remaining: "X-Remaining-Today"},
	{Name: "Facebook app", Policy: "app", Unit: percent, percentJSON: "X-App-Usage"},
	{Name: "Facebook business", Policy: "business", Unit: percent, percentJSON: "X-Business-Use-Case-Usage"},
	{Name: "Facebook ads", Policy: "ad-account", Unit: percent, percentJSON: "X-Ad-Account-Usage"},
	{Name: "Fitbit", Limit: "Fitbit-Rate-Limit-Limit", Remaining: "Fitbit-Rate-Limit-Remaining", Reset: "Fitbit-Rate-Limit-Reset"},
	{Name: "Gravitee quota", Policy: "quota", Limit: "X-Quota-Limit", Remaining: "X-Quota-Remaining", Reset: "X-Quota-Reset"},
	{Name: "HubSpot", Limit: "X-HubSpot-RateLimit-Max", Remaining: "X-HubSpot-RateLimit-Remaining",
		Window: "X-HubSpot-RateLimit-Interval-Milliseconds"},
	{Name: "HubSpot, day", Policy: "day", Period: 24 * time.Hour,
		Limit: "X-HubSpot-RateLimit-Daily", Remaining: "X-HubSpot-RateLimit-Daily-Remaining"},
	{Name: "HubSpot, second", Policy: "second", Period: time.Second,
		Limit: "X-HubSpot-RateLimit-Secondly", Remaining: "X-HubSpot-RateLimit-Secondly-Remaining"},
	{Name: "Imgur user", Policy: "user", Unit: "credits",
		Limit: "X-RateLimit-UserLimit", Remaining: "X-RateLimit-UserRemaining", Reset: "X-RateLimit-UserReset"},
	{Name: "Imgur client", Policy: "client", Unit: "credits",
		Limit: "X-RateLimit-ClientLimit", Remaining: "X-RateLimit-ClientRemaining", Reset: "X-RateLimit-ClientReset"},
	{Name: "Imgur posts", Policy: "post", Unit: "posts",
		Limit: "X-Post-Rate-Limit-Limit", Remaining: "X-Post-Rate-Limit-Remaining", Reset: "X-Post-Rate-Limit-Reset"},
	{Name: "KuCoin", Unit: "weight",
		Limit: "Gw-RateLimit-Limit", Remaining: "Gw-RateLimit-Remaining",
		Reset: "Gw-RateLimit-Reset", ResetAs: DeltaMilliseconds, Retry: "Gw-RateLimit-Reset", RetryAs: DeltaMilliseconds},
	{Name: "Lark", Limit: "X-Ogw-RateLimit-Limit", Reset: "X-Ogw-RateLimit-Reset", Retry: "X-Ogw-RateLimit-Reset"},
	{Name: "Microsoft Graph", Policy: "throttle", Unit: percent, fractionUsed: "X-Ms-Throttle-Limit-Percentage"},
	{Name: "Riot, application", Policy: "app", windows: "X-App-Rate-Limit", windowsUsed: "X-App-Rate-Limit-Count"},
	{Name: "Riot, method", Policy: "method", windows: "X-Method-Rate-Limit", windowsUsed: "X-Method-Rate-Limit-Count"},
	{Name: "Salesforce", Period: 24 * time.Hour, usedOf: "Sforce-Limit-Info"},
	{Name: "Sentry", categories: "X-Sentry-Rate-Limits"},
	{Name: "Shopify", usedOf: "X-Shopify-Shop-Api-Call-Limit"},
	{Name: "Ticketmaster", Limit: "Rate-Limit", Remaining: "Rate-Limit-Available", Reset: "Rate-Limit-Reset", Period: 24 * time.Hour},
	{Name: "Twilio", Unit: "concurrency", Used: "Twilio-Concurrent-Requests"},
	{Name: "Xero, day", Policy: "day", Period: 24 * time.Hour, Remaining: "X-DayLimit-Remaining"},
	{Name: "Xero, minute", Policy: "minute", Period: time.Minute, Remaining: "X-MinLimit-Remaining"},
	{Name: "Xero, application", Policy: "app-minute", Period: time.Minute, Remaining: "X-AppMinLimit-Remaining"},
	{Name: "Yelp, resource", Policy: "resource", Period: 24 * time.Hour,
		Limit: "RateLimit-ResourceDailyLimit", Remaining: "RateLimit-ResourceRemaining"},
	{Name: "Zendesk endpoints", state: "Zendesk-RateLimit-*"},

	// Hosts where a shared name means something else, or with statuses and waits
	// of their own.
	{Name: "Airtable", Hosts: []string{"airtable.com"}, Wait: 30 * time.Second},
	{Name: "Anthropic overload", Hosts: []string{"anthropic.com"}, Refusals: []int{529}},
	{Name: "Binance ban", Hosts: []string{"binance.com", "binance.us", "binance.vision"}, Refusals: []int{418}},
	{Name: "Dropbox contention", Hosts: []string{"dropboxapi.com"}, RefusalsWithHint: []int{409}},
	{Name: "Facebook", Hosts: []string{"facebook.com", "instagram.com"}, RefusalsWithHint: []int{400}},
	{Name: "GitHub secondary limits", Hosts: []string{"github.com"}, Wait: time.Minute},
	{Name: "HubSpot migration", Hosts: []string{"hubapi.com", "hubspot.com"}, Refusals: []int{477}},
	{Name: "Lark, older endpoints", Hosts: []string{"larksuite.com", "feishu.cn"}, RefusalsWithHint: []int{400}},
	{Name: "Linear", Hosts: []string{"linear.app"}, RefusalsWithHint: []int{400}},
	{Name: "Notion overload", Hosts: []string{"notion.com"}, Refusals: []int{529}},
	{Name: "Nuvemshop", Hosts: []string{"nuvemshop.com.br", "tiendanube.com"},
		Limit: "X-Rate-Limit-Limit", Remaining: "X-Rate-Limit-Remaining", Reset: "X-Rate-Limit-Reset", ResetAs: DeltaMilliseconds},
	{Name: "Prisjakt", Hosts: []string{"prisjakt.nu", "prisjakt.no", "pricespy.com", "pricespy.co.uk"},
		Limit: "X-Rate-Limit-Limit", Remaining: "X-Rate-Limit-Remaining", Reset: "X-Rate-Limit-Reset", ResetAs: DeltaMilliseconds},
	{Name: "QuickBooks", Hosts: []string{"quickbooks.api.intuit.com", "sandbox-quickbooks.api.intuit.com"}, Wait: time.Minute},
	{Name: "Shopify security", Hosts: []string{"myshopify.com"}, Refusals: []int{430}},
	{Name: "Strava", Hosts: []string{"strava.com"}, Limit: "X-RateLimit-Limit", Used: "X-RateLimit-Usage", layers: stravaWindows},
	{Name: "Strava reads", Hosts: []string{"strava.com"}, Policy: "read",
		Limit: "X-ReadRateLimit-Limit", Used: "X-ReadRateLimit-Usage", layers: stravaWindows},
	{Name: "Zoom", Hosts: []string{"zoom.us"}, Wait: time.Second}, // the limit per second sends no hint
}

var stravaWindows = []layer{{"15-minutes", 15 * time.Minute}, {"day", 24 * time.Hour}}
