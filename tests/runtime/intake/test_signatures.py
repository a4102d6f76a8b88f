"""Signatures: the senders' own examples, rotation, the window, and everything malformed fails closed."""

import base64
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.intake import signatures

NOW = 1_800_000_000
BODY = b'{"id":5001,"total":"12.50"}'


def check(signature, secrets, headers, raw=BODY, now=NOW) -> bool:
    """Whether a request with these headers is signed; names of headers in any case, as over HTTP."""
    known = {name.lower(): value for name, value in headers.items()}
    return signatures.is_signed(signature, secrets, lambda name: known.get(name.lower()), raw, now=now)


def mac(secret: str | bytes, text: bytes, algorithm: str = "sha256") -> bytes:
    return hmac.digest(secret.encode() if isinstance(secret, str) else secret, text, algorithm)


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def standard(
    secret: bytes = b"k" * 24, identity: str = "msg_1", at: int = NOW, raw: bytes = BODY
) -> dict[str, str]:
    signed = b64(mac(secret, f"{identity}.{at}.".encode() + raw))
    return {"webhook-id": identity, "webhook-timestamp": str(at), "webhook-signature": f"v1,{signed}"}


def stripe(secret: str = "whsec_a", at: int = NOW, raw: bytes = BODY) -> dict[str, str]:
    return {"Stripe-Signature": f"t={at},v1={mac(secret, f'{at}.'.encode() + raw).hex()}"}


STANDARD_SECRET = "whsec_" + b64(b"k" * 24)


class TestTheSendersOwnExamples:
    def test_github(self):
        """docs.github.com, validating webhook deliveries: testing the webhook payload validation."""
        sent = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
        signature = {"scheme": "github"}
        assert check(
            signature, ["It's a Secret to Everybody"], {"X-Hub-Signature-256": sent}, b"Hello, World!"
        )

    def test_standard_webhooks(self):
        """The vector of the Standard Webhooks libraries."""
        headers = {
            "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "webhook-timestamp": "1614265330",
            "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        }
        secrets = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]
        raw = b'{"test": 2432232314}'
        assert check({"scheme": "standard"}, secrets, headers, raw, now=1614265330)
        assert not check({"scheme": "standard"}, secrets, headers, raw + b" ", now=1614265330)


@pytest.mark.parametrize(
    ("scheme", "headers"),
    [
        ("github", {"X-Hub-Signature-256": "sha256=" + mac("s", BODY).hex()}),
        ("shopify", {"X-Shopify-Hmac-Sha256": b64(mac("s", BODY))}),
        ("shoptet", {"Shoptet-Webhook-Signature": mac("s", BODY, "sha1").hex()}),
        ("woocommerce", {"X-WC-Webhook-Signature": b64(mac("s", BODY))}),
        ("stripe", stripe("s")),
        ("standard", standard(b"s")),
    ],
)
class TestEveryScheme:
    def test_matches(self, scheme, headers):
        assert check({"scheme": scheme}, ["s"], headers)

    def test_matches_with_the_older_of_two_secrets(self, scheme, headers):
        assert check({"scheme": scheme}, ["new", "s"], headers)

    def test_another_body_secret_or_header_does_not_match(self, scheme, headers):
        assert not check({"scheme": scheme}, ["s"], headers, BODY + b" ")
        assert not check({"scheme": scheme}, ["t"], headers)
        assert not check({"scheme": scheme}, ["s"], {})

    def test_without_a_secret_nothing_matches(self, scheme, headers):
        assert not check({"scheme": scheme}, [], headers)
        assert not check({"scheme": scheme}, [""], headers)

    @pytest.mark.parametrize(
        "value", ["", " ", "sha256=", "v1,", "t=,v1=", "zz", "sha256=zz", "=", ",,,", "\u017e", "v1,a", "t=1"]
    )
    def test_malformed_values_do_not_match(self, scheme, headers, value):
        name = list(headers)[-1]
        assert not check({"scheme": scheme}, ["s"], {**headers, name: value})


class TestStandard:
    SIGNATURE = {"scheme": "standard"}

    def test_one_of_several_signatures_is_enough(self):
        headers = standard()
        headers["webhook-signature"] = "v1a,abc v1,AAAA " + headers["webhook-signature"]
        assert check(self.SIGNATURE, [STANDARD_SECRET], headers)

    def test_only_version_1_counts(self):
        headers = standard()
        headers["webhook-signature"] = headers["webhook-signature"].replace("v1,", "v2,")
        assert not check(self.SIGNATURE, [STANDARD_SECRET], headers)

    def test_more_signatures_than_any_rotation_are_not_looked_through(self):
        headers = standard()
        headers["webhook-signature"] = "v1,AAAA " * 20 + headers["webhook-signature"]
        assert not check(self.SIGNATURE, [STANDARD_SECRET], headers)

    def test_the_id_is_signed(self):
        assert not check(self.SIGNATURE, [STANDARD_SECRET], {**standard(), "webhook-id": "msg_2"})
        assert not check(self.SIGNATURE, [STANDARD_SECRET], {**standard(), "webhook-id": ""})

    def test_a_secret_with_the_prefix_has_to_be_base64(self):
        assert not check(self.SIGNATURE, ["whsec_***"], standard(b"***"))

    def test_a_secret_without_the_prefix_may_be_base64_or_text(self):
        assert check(self.SIGNATURE, [b64(b"k" * 24)], standard())
        assert check(self.SIGNATURE, ["plain text"], standard(b"plain text"))


@pytest.mark.parametrize("shift", [-300, 0, 300])
@pytest.mark.parametrize("make", [standard, stripe])
def test_within_five_minutes_a_timestamp_is_good(make, shift):
    secret = STANDARD_SECRET if make is standard else "whsec_a"
    scheme = {"scheme": make.__name__}
    assert check(scheme, [secret], make(at=NOW + shift))
    assert not check(scheme, [secret], make(at=NOW + (shift or 1) * 2 + (1 if shift >= 0 else -1) * 300))


class TestStripe:
    def test_any_of_several_signatures_counts(self):
        headers = {"Stripe-Signature": f"t={NOW},v1=00,v0=11,{stripe()['Stripe-Signature'].split(',')[1]}"}
        assert check({"scheme": "stripe"}, ["whsec_a"], headers)

    def test_two_timestamps_are_none(self):
        headers = {"Stripe-Signature": f"t={NOW},{stripe()['Stripe-Signature']}"}
        assert not check({"scheme": "stripe"}, ["whsec_a"], headers)


class TestGeneric:
    @pytest.mark.parametrize("algorithm", ["sha1", "sha256", "sha384", "sha512"])
    @pytest.mark.parametrize("encoding", ["hex", "base64"])
    def test_algorithms_and_encodings(self, algorithm, encoding):
        signature = {"scheme": "hmac", "header": "X-Sig", "algorithm": algorithm, "encoding": encoding}
        given = mac("s", BODY, algorithm)
        written = given.hex() if encoding == "hex" else b64(given)
        assert check(signature, ["s"], {"X-Sig": written})
        assert check(signature, ["s"], {"X-Sig": f"{algorithm}={written}"})
        assert not check(signature, ["s"], {"X-Sig": written[:-4]})

    def test_sha256_in_hex_is_the_default_in_either_case(self):
        signature = {"scheme": "hmac", "header": "X-Sig"}
        assert check(signature, ["s"], {"X-Sig": mac("s", BODY).hex()})
        assert check(signature, ["s"], {"X-Sig": mac("s", BODY).hex().upper()})

    def test_base64_may_be_url_safe_and_without_padding(self):
        signature = {"scheme": "hmac", "header": "X-Sig", "encoding": "base64"}
        for secret in map(str, range(20)):
            written = base64.urlsafe_b64encode(mac(secret, BODY)).decode().rstrip("=")
            assert check(signature, [secret], {"X-Sig": written})

    def test_a_timestamp_is_signed_and_has_to_be_recent(self):
        signature = {"scheme": "hmac", "header": "X-Sig", "timestampHeader": "X-At"}
        for at in (str(NOW), str(NOW * 1000)):
            headers = {"X-At": at, "X-Sig": mac("s", f"{at}.".encode() + BODY).hex()}
            assert check(signature, ["s"], headers)
            assert not check(signature, ["s"], {**headers, "X-At": str(NOW + 1)})
            assert not check(signature, ["s"], headers, now=NOW + 301)
        bare = {"X-Sig": mac("s", BODY).hex()}
        assert not check(signature, ["s"], bare)
        assert not check(signature, ["s"], {**bare, "X-At": "soon"})

    def test_an_unknown_algorithm_encoding_or_scheme_fails_closed(self):
        headers = {"X-Sig": mac("s", BODY).hex()}
        for signature in (
            {"scheme": "hmac"},
            {"scheme": "hmac", "header": "X-Sig", "algorithm": "md5"},
            {"scheme": "hmac", "header": "X-Sig", "encoding": "rot13"},
            {"scheme": "nothing", "header": "X-Sig"},
            {},
        ):
            assert not check(signature, ["s"], headers)


def test_a_trigger_may_name_another_header_for_a_known_scheme():
    signature = {"scheme": "shopify", "header": "X-Other"}
    assert check(signature, ["s"], {"X-Other": b64(mac("s", BODY))})
    assert not check(signature, ["s"], {"X-Shopify-Hmac-Sha256": b64(mac("s", BODY))})


@given(
    st.sampled_from(["standard", "github", "stripe", "shopify", "shoptet", "woocommerce", "hmac"]),
    st.text(),
    st.text(),
)
def test_no_header_makes_an_error_or_a_match(scheme, value, timestamp):
    signature = {"scheme": scheme, "header": "X-Any", "timestampHeader": "X-At"}
    headers = {"X-Any": value, "X-At": timestamp, "webhook-id": value, "webhook-timestamp": timestamp}
    assert not check(signature, ["secret"], headers)


def test_hashlib_knows_every_algorithm():
    assert set(signatures.ALGORITHMS) <= hashlib.algorithms_guaranteed
