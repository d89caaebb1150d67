"""Who somebody is, through unmodified kubectl: impersonation, reviews, whoami, and tokens of ServiceAccounts."""
import base64
import json
import time

import pytest

from control_plane import USER_TOKEN, User

RBAC = "rbac.authorization.k8s.io"
AUTHZ = "/apis/authorization.k8s.io/v1"


@pytest.fixture
def alice(plane):
    yield User(plane)
    plane.kubectl("delete", "clusterrolebindings,clusterroles", "-l", "test=yes")
    plane.kubectl("delete", "rolebindings,roles", "--all", "-n", "default")


def allow(plane, *rules, user="alice"):
    """Gives user the rules, everywhere."""
    name = f"test-{time.monotonic_ns()}"
    labels = {"test": "yes"}
    for body in [
        {"kind": "ClusterRole", "rules": list(rules)},
        {"kind": "ClusterRoleBinding", "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
         "subjects": [{"kind": "User", "name": user, "apiGroup": RBAC}]},
    ]:
        plane.kubectl("create", "-f", "-", stdin=json.dumps(
            {"apiVersion": f"{RBAC}/v1", "metadata": {"name": name, "labels": labels}, **body}))


def rule(resources, verbs, group="", **more):
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split(), **more}


def whoami(user, *options):
    return json.loads(user.ok("auth", "whoami", "-o", "json", *options))["status"]["userInfo"]


# --- impersonation ---


def test_impersonation_needs_the_right(plane, alice):
    alice.ok("api-resources")  # kubectl does not tell why this is refused
    text = alice.refused("get", "pods", "--as=bob")
    assert text.strip() == ('Error from server (Forbidden): users "bob" is forbidden: User "alice" cannot impersonate '
                            'resource "users" in API group "" at the cluster scope')
    allow(plane, rule("users", "impersonate", resourceNames=["bob"]))
    assert 'User "bob" cannot list' in alice.refused("get", "pods", "--as=bob")
    assert whoami(alice, "--as=bob") == {"username": "bob", "groups": ["system:authenticated"]}
    for options, message in [
        (["--as=carol"], 'users "carol" is forbidden'),
        (["--as=bob", "--as-group=system:masters"],
         'groups "system:masters" is forbidden: User "alice" cannot impersonate resource "groups" in API group "" at '
         'the cluster scope'),
        (["--as=bob", "--as-uid=7"], 'uids.authentication.k8s.io "7" is forbidden: User "alice" cannot impersonate '
                                     'resource "uids" in API group "authentication.k8s.io" at the cluster scope'),
        (["--as=system:serviceaccount:default:default"],
         'serviceaccounts "default" is forbidden: User "alice" cannot impersonate resource "serviceaccounts" in API '
         'group "" in the namespace "default"'),
    ]:
        assert message in alice.refused("get", "pods", *options)
    status, body = alice.call("GET", "/api/v1/pods", headers={"Impersonate-User": "bob",
                                                              "Impersonate-Extra-Scopes": "all"})
    assert status == 403
    assert body["message"] == ('userextras.authentication.k8s.io "all" is forbidden: User "alice" cannot impersonate '
                               'resource "userextras/scopes" in API group "authentication.k8s.io" at the cluster scope')


def test_what_is_impersonated(plane, alice):
    allow(plane, rule("users groups serviceaccounts", "impersonate"),
          rule("uids userextras/scopes userextras/a%b", "impersonate", "authentication.k8s.io"))
    assert whoami(alice, "--as=bob", "--as-group=x", "--as-group=y", "--as-uid=7") == {
        "username": "bob", "uid": "7", "groups": ["x", "y", "system:authenticated"]}
    assert whoami(alice, "--as=system:serviceaccount:kube-system:default")["groups"] == [
        "system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"]
    assert whoami(alice, "--as=system:serviceaccount:kube-system:default", "--as-group=system:authenticated") == {
        "username": "system:serviceaccount:kube-system:default", "groups": ["system:authenticated"]}
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    status, body = alice.call("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review, headers={
        "Impersonate-User": "bob", "Impersonate-Extra-Scopes": "all", "impersonate-extra-a%25B": "x"})
    assert status == 201
    assert body["status"]["userInfo"]["extra"] == {"scopes": ["all"], "a%b": ["x"]}
    # The right to be an administrator is the right to everything.
    alice.ok("get", "nodes", "--as=root", "--as-group=system:masters")


def test_impersonation_without_a_user(plane, alice):
    for headers, text in [
        ({"Impersonate-Group": "system:masters"}, "[{Group  system:masters    }]"),
        ({"Impersonate-Uid": "7"}, "[{UID  7  authentication.k8s.io/v1  }]"),
        ({"Impersonate-User": "", "Impersonate-Extra-K": "v"}, "[{UserExtra  v  authentication.k8s.io/v1  k}]"),
    ]:
        status, body = alice.call("GET", "/api/v1/pods", headers=headers)
        assert status == 500
        assert body["message"] == f"Internal error occurred: requested {text} without impersonating a user"


def test_the_server_s_own_users_cannot_be_had_by_names(plane, alice):
    """A name that looks like a ServiceAccount's, and is none."""
    allow(plane, rule("users", "impersonate"))
    for name in "system:serviceaccount:a", "system:serviceaccount::x", "system:serviceaccount:a:b:c":
        assert whoami(alice, f"--as={name}") == {"username": name, "groups": ["system:authenticated"]}
    assert 'serviceaccounts "b" is forbidden' in alice.refused("get", "pods", "--as=system:serviceaccount:a:b")


# --- reviews ---


def test_can_i(plane, alice):
    assert alice.run("auth", "can-i", "get", "pods").stdout == "no\n"
    allow(plane, rule("pods", "get list"), rule("pods/log", "get"), {"nonResourceURLs": ["/metrics"], "verbs": ["get"]})
    assert alice.ok("auth", "can-i", "get", "pods") == "yes\n"
    assert alice.ok("auth", "can-i", "get", "pods", "-n", "kube-system") == "yes\n"
    assert alice.ok("auth", "can-i", "get", "pods", "--subresource=log") == "yes\n"
    assert alice.ok("auth", "can-i", "get", "/metrics") == "yes\n"
    assert alice.ok("auth", "can-i", "get", "/version") == "yes\n"
    assert alice.run("auth", "can-i", "get", "pods", "--subresource=exec").stdout == "no\n"
    assert alice.run("auth", "can-i", "delete", "pods").returncode == 1
    assert alice.run("auth", "can-i", "*", "*").stdout == "no\n"
    assert plane.kubectl("auth", "can-i", "*", "*") == "yes\n"
    assert plane.kubectl("auth", "can-i", "get", "pods", "--as=alice") == "yes\n"
    assert plane.kubectl("auth", "can-i", "get", "secrets", "--as=bob", "--as-group=system:masters") == "yes\n"
    # A role that is missing is told.
    plane.kubectl("create", "rolebinding", "x", "--role=gone", "--user=alice")
    assert alice.run("auth", "can-i", "get", "secrets").stdout == (
        f'no - RBAC: role.{RBAC} "gone" not found\n')


def test_can_i_list(plane, alice):
    allow(plane, rule("pods", "get list", resourceNames=["a"]))
    text = alice.ok("auth", "can-i", "--list")
    lines = [line.split() for line in text.splitlines()]
    assert ["pods", "[]", "[a]", "[get", "list]"] in lines
    assert ["selfsubjectaccessreviews.authorization.k8s.io", "[]", "[]", "[create]"] in lines
    assert any(line[:2] == ["[/apis/*]", "[]"] for line in lines)
    assert "*.*" in plane.kubectl("auth", "can-i", "--list")


def test_reviews(plane, alice):
    def ask(kind, spec, ns=None, status=201):
        path = f"{AUTHZ}/namespaces/{ns}/" if ns else f"{AUTHZ}/"
        answer = plane.open("POST", path + kind.lower() + "s", {
            "apiVersion": "authorization.k8s.io/v1", "kind": kind, "metadata": {}, "spec": spec})
        body = json.loads(answer.read())
        assert answer.status == status, body
        return body["status"] if status == 201 else body["message"]

    allow(plane, rule("pods", "get"))
    pods = {"namespace": "default", "verb": "get", "resource": "pods"}
    yes = ask("SubjectAccessReview", {"user": "alice", "resourceAttributes": pods})
    assert yes["allowed"] and yes["reason"].startswith("RBAC: allowed by ClusterRoleBinding")
    assert ask("SubjectAccessReview", {"user": "bob", "resourceAttributes": pods}) == {"allowed": False}
    assert ask("SubjectAccessReview", {"user": "bob", "groups": ["system:masters"], "resourceAttributes": pods})["allowed"]
    version = {"path": "/version", "verb": "get"}
    # Groups are those given, and no others.
    assert not ask("SubjectAccessReview", {"user": "bob", "nonResourceAttributes": version})["allowed"]
    assert ask("SubjectAccessReview", {"groups": ["system:authenticated"], "nonResourceAttributes": version})["allowed"]
    assert ask("LocalSubjectAccessReview", {"user": "alice", "resourceAttributes": pods}, "default")["allowed"]
    for kind, spec, ns, message in [
        ("LocalSubjectAccessReview", {"user": "alice", "resourceAttributes": pods}, "kube-system",
         'spec.resourceAttributes.namespace: Invalid value: "default": must match metadata.namespace'),
        ("LocalSubjectAccessReview", {"user": "alice", "nonResourceAttributes": version}, "default",
         "spec.nonResourceAttributes: Invalid value"),
        ("SubjectAccessReview", {"resourceAttributes": pods}, None,
         'spec.user: Invalid value: "": at least one of user or group must be specified'),
        ("SubjectAccessReview", {"user": "a"}, None, "exactly one of nonResourceAttributes or resourceAttributes"),
        ("SelfSubjectAccessReview", {"nonResourceAttributes": version, "resourceAttributes": pods}, None,
         "exactly one of nonResourceAttributes or resourceAttributes"),
    ]:
        assert message in ask(kind, spec, ns, 422)
    status, body = alice.call("POST", f"{AUTHZ}/subjectaccessreviews", {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": "alice"}})
    assert status == 403
    status, body = alice.call("POST", f"{AUTHZ}/selfsubjectrulesreviews", {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": "default"}})
    assert body["status"]["incomplete"] is False
    assert {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": []} in body["status"]["resourceRules"]


# --- tokens of ServiceAccounts ---


def token(plane, *options, account="default"):
    return plane.kubectl("create", "token", account, *options).strip()


def claims(token):
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def review(plane, token, audiences=None):
    answer = plane.open("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": token, **({"audiences": audiences} if audiences else {})}})
    body = json.loads(answer.read())
    assert answer.status == 201, body
    return body["status"]


ISSUER = "https://kubernetes.default.svc.cluster.local"


def test_token_of_a_service_account(plane, alice):
    text = token(plane)
    uid = plane.get("serviceaccount", "default")["metadata"]["uid"]
    said = claims(text)
    assert said["sub"] == "system:serviceaccount:default:default"
    assert (said["iss"], said["aud"], said["exp"] - said["iat"]) == (ISSUER, [ISSUER], 3600)
    assert said["kubernetes.io"] == {"namespace": "default", "serviceaccount": {"name": "default", "uid": uid}}
    robot = User(plane, text)
    assert whoami(robot) == {
        "username": "system:serviceaccount:default:default", "uid": uid,
        "groups": ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"],
        "extra": {"authentication.kubernetes.io/credential-id": ["JTI=" + said["jti"]]}}
    assert ('pods is forbidden: User "system:serviceaccount:default:default" cannot list resource "pods"'
            in robot.refused("get", "pods"))
    plane.kubectl("create", "rolebinding", "robot", "--clusterrole=view", "--serviceaccount=default:default")
    robot.ok("get", "pods")
    assert "forbidden" in robot.refused("get", "pods", "-n", "kube-system")
    plane.kubectl("delete", "rolebinding", "robot")
    assert "forbidden" in robot.refused("get", "pods")
    seconds = [claims(token(plane, f"--duration={d}"))for d in ("10m", "48h")]
    assert [s["exp"] - s["iat"] for s in seconds] == [600, 172800]
    assert "may not specify a duration less than 10 minutes" in plane.kubectl(
        "create", "token", "default", "--duration=5m", ok=False)
    assert 'serviceaccounts "none" not found' in plane.kubectl("create", "token", "none", ok=False)
    assert 'cannot create resource "serviceaccounts/token"' in alice.refused("create", "token", "default")


def test_tokens_that_are_none(plane):
    good = token(plane)
    head, body, signature = good.split(".")

    def encode(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    kid = json.loads(base64.urlsafe_b64decode(head + "==="))["kid"]
    root = {**claims(good), "sub": "system:serviceaccount:kube-system:default"}
    for bad in [f"{encode({'alg': 'none'})}.{body}.", f"{encode({'alg': 'none', 'kid': kid})}.{body}.{signature}",
                f"{head}.{encode(root)}.{signature}", f"{head}.{body}.{signature[:-4]}AAAA", f"{head}.{body}", good + ".",
                token(plane, "--audience=vault"), "x" * 30000]:
        answer = plane.open("GET", "/version", token=bad)
        assert answer.status in (401, 431)
        if answer.status == 401:
            assert json.loads(answer.read())["message"] == "Unauthorized"


def test_tokens_survive_a_restart_and_end_with_the_account(plane):
    plane.kubectl("create", "serviceaccount", "robot")
    text = token(plane, account="robot")
    plane.stop(kill=True)
    plane.start()
    assert whoami(User(plane, text))["username"] == "system:serviceaccount:default:robot"
    assert (plane.dir / "data/control/sa.key").stat().st_mode & 0o777 == 0o600
    plane.kubectl("delete", "serviceaccount", "robot")
    assert "Unauthorized" in User(plane, text).refused("get", "pods")
    plane.kubectl("create", "serviceaccount", "robot")
    assert "Unauthorized" in User(plane, text).refused("get", "pods")
    plane.kubectl("delete", "serviceaccount", "robot")


def test_token_bound_to_a_pod(plane):
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
           "spec": {"containers": [{"name": "main", "image": "host"}]}}
    plane.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    uid = plane.get("pod", "p")["metadata"]["uid"]
    text = token(plane, "--bound-object-kind=Pod", "--bound-object-name=p", f"--bound-object-uid={uid}")
    assert claims(text)["kubernetes.io"]["pod"] == {"name": "p", "uid": uid}
    extra = whoami(User(plane, text))["extra"]
    assert extra["authentication.kubernetes.io/pod-name"] == ["p"]
    assert extra["authentication.kubernetes.io/pod-uid"] == [uid]
    plane.kubectl("create", "serviceaccount", "other")
    assert "cannot bind token for serviceaccount" in plane.kubectl(
        "create", "token", "other", "--bound-object-kind=Pod", "--bound-object-name=p", ok=False)
    assert "the UID in the bound object reference (x) does not match" in plane.kubectl(
        "create", "token", "default", "--bound-object-kind=Pod", "--bound-object-name=p", "--bound-object-uid=x", ok=False)
    plane.kubectl("delete", "pod", "p", "--force", "--grace-period=0")
    assert "Unauthorized" in User(plane, text).refused("get", "pods")
    plane.kubectl("delete", "serviceaccount", "other")


def test_token_review(plane):
    text = token(plane, "--audience=vault", "--audience=api")
    assert review(plane, text) == {"authenticated": False, "error": "the token is for another audience"}
    seen = review(plane, text, ["x", "vault"])
    assert seen["authenticated"] and seen["audiences"] == ["vault"]
    assert seen["user"]["username"] == "system:serviceaccount:default:default"
    assert review(plane, token(plane))["audiences"] == [ISSUER]
    assert review(plane, USER_TOKEN)["user"]["username"] == "alice"
    assert not review(plane, USER_TOKEN, ["vault"])["authenticated"]
    assert not review(plane, "x")["authenticated"]


def test_others_can_verify_tokens(plane, alice):
    """The way of OpenID Connect: the issuer's description leads to the keys."""
    robot = User(plane, token(plane))
    status, about = robot.call("GET", "/.well-known/openid-configuration")
    assert status == 200 and about["issuer"] == ISSUER
    assert about["jwks_uri"] == f"https://127.0.0.1:{plane.port}/openid/v1/jwks"
    status, keys = robot.call("GET", "/openid/v1/jwks")
    (key,) = keys["keys"]
    assert (key["kty"], key["crv"], key["alg"]) == ("EC", "P-256", "ES256")
    head = robot.token.split(".")[0]
    assert json.loads(base64.urlsafe_b64decode(head + "==="))["kid"] == key["kid"]
    assert alice.call("GET", "/openid/v1/jwks")[0] == 403
    ec = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ec")
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    def number(text):
        return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), "big")

    public = ec.EllipticCurvePublicNumbers(number(key["x"]), number(key["y"]), ec.SECP256R1()).public_key()
    signed, _, signature = robot.token.rpartition(".")
    raw = base64.urlsafe_b64decode(signature + "==")
    public.verify(encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big")),
                  signed.encode(), ec.ECDSA(hashes.SHA256()))


def test_a_dry_run_makes_no_token(plane):
    request = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {}}
    answer = plane.open("POST", "/api/v1/namespaces/default/serviceaccounts/default/token?dryRun=All", request)
    status = json.load(answer)["status"]
    assert answer.status == 201 and status["token"] == "" and status["expirationTimestamp"]


@pytest.mark.parametrize("kind", ["Secret", "ServiceAccount"])
def test_a_watch_ends_with_what_its_token_is_bound_to(plane, kind):
    """And others go on."""
    plane.kubectl("create", "serviceaccount", "watcher")
    plane.kubectl("create", "clusterrolebinding", "watcher", "--clusterrole=view", "--serviceaccount=default:watcher")
    plane.kubectl("create", "secret", "generic", "leash")
    bound = ["--bound-object-kind=Secret", "--bound-object-name=leash"] if kind == "Secret" else []
    path = "/api/v1/namespaces/default/configmaps?watch=1"
    watch = plane.open("GET", path, token=plane.kubectl("create", "token", "watcher", *bound).strip())
    other = plane.open("GET", path, token=plane.kubectl("create", "token", "watcher").strip())
    assert watch.status == other.status == 200
    plane.kubectl("delete", kind, "leash" if kind == "Secret" else "watcher")
    watch.read()  # to the end, or the test takes too long
    if kind == "Secret":
        plane.kubectl("create", "configmap", "seen")
        assert b"seen" in other.readline()
        plane.kubectl("delete", "configmap", "seen")
        plane.kubectl("delete", "serviceaccount", "watcher")
    plane.kubectl("delete", "clusterrolebinding/watcher")
    plane.kubectl("delete", "secret", "leash", "--ignore-not-found")
