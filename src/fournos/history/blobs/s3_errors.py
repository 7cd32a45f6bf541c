"""What an S3 server's refusal means, and what to do about it.  Pure.

The library's errors repeat the answer of the server, which may name the access key and what was signed.  So
no text of theirs is shown: only the code of the error, which S3 documents.
"""

from __future__ import annotations

import re
from typing import Final

_CODE: Final = re.compile(r"<Code>(\w{1,64})</Code>|\(code: (\w{1,64})\)")
_STATUS: Final = re.compile(r"Server returned non-2xx status code: (\d{3})")
_KEYS: Final = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN, if it is temporary)"
_RIGHTS: Final = (
    "allow s3:ListBucket on the bucket, and s3:GetObject, s3:PutObject and s3:DeleteObject on its objects"
)
FIXES: Final = {
    "AccessDenied": f"these credentials may not do that: {_RIGHTS}",
    "AllAccessDisabled": "the provider has disabled the account",
    "AuthorizationHeaderMalformed": "the bucket is in another region: set FOURNOS_HISTORY_S3_REGION",
    "ExpiredToken": "the credentials have expired: renew them",
    "IllegalLocationConstraintException": "the bucket is in another region: set FOURNOS_HISTORY_S3_REGION",
    "InvalidAccessKeyId": f"the server does not know the access key: {_KEYS}",
    "InvalidBucketName": "create the bucket, or name another one in FOURNOS_HISTORY_BLOBS",
    "InvalidToken": f"the session token is not valid: {_KEYS}",
    "NoSuchBucket": "create the bucket, or name another one in FOURNOS_HISTORY_BLOBS",
    "PermanentRedirect": "the bucket is in another region: set FOURNOS_HISTORY_S3_REGION",
    "QuotaExceeded": "the bucket is full: raise its quota, or lower FOURNOS_HISTORY_RETENTION_MB",
    "RequestTimeTooSkewed": "the clock of this machine is wrong: synchronize it (NTP)",
    "SignatureDoesNotMatch": f"the secret key does not belong to the access key: {_KEYS}",
}
"""Code of an error that does not pass by itself → what to do."""

NO_KEY: Final = "NoSuchKey"
_NO_CREDENTIALS: Final = f"no credentials are found: {_KEYS}, or AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN"
_METADATA: Final = ("/latest/api/token", "/latest/meta-data/", "//169.254.170.2/", "//169.254.170.23/")
"""Parts of the URLs at which a machine in a cloud has its credentials."""
_IDENTITY: Final = ("Action=AssumeRoleWithWebIdentity", "WebIdentity")
_REDIRECT: Final = "incorrectly configured region"
_TLS: Final = ("invalid peer certificate", "certificate verify failed", "UnknownIssuer")


def code_of(text: str) -> str:
    """Returns the code of the error that the server gave; empty if it gave none."""
    found = _CODE.search(text)
    return (found[1] or found[2]) if found else ""


def explained(text: str) -> tuple[str, bool]:
    """Returns the text for a person, and whether the error lasts until a person changes something."""
    if any(part in text for part in _METADATA):
        return _NO_CREDENTIALS, True
    if any(word in text for word in _IDENTITY):
        fix = "check the role's trust in this ServiceAccount, AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE"
        return f"the role's credentials are refused ({code_of(text) or 'no code'}): {fix}", True
    if any(word in text for word in _TLS):
        return "its certificate is not trusted: set FOURNOS_HISTORY_S3_CA_FILE", True
    if _REDIRECT in text:
        return FIXES["PermanentRedirect"], True
    code = code_of(text)
    if code in FIXES:
        return f"{code}: {FIXES[code]}", True
    status = _STATUS.search(text)
    if code or status:
        return f"it answers {code or 'an error'}" + (f" (status {status[1]})" if status else ""), False
    return "it cannot be reached", False
