# An image of one node: `docker build --tag goqueue .`
#
# The first stage compiles the extensions; the second has neither a compiler nor pip. Packages are
# those of requirements-run.lock, checked by their hashes.

FROM python:3.13-slim-bookworm AS build
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev
WORKDIR /build
COPY requirements-build.lock requirements-run.lock ./
RUN python -m venv --without-pip /opt/goqueue \
    && pip install --no-cache-dir --require-hashes --requirement requirements-build.lock \
    && pip --python /opt/goqueue/bin/python install --no-cache-dir --require-hashes --requirement requirements-run.lock
COPY pyproject.toml setup.py MANIFEST.in README.md CHANGELOG.md LICENSE ./
COPY src src
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && pip --python /opt/goqueue/bin/python install --no-deps --no-index /wheels/*.whl

FROM python:3.13-slim-bookworm
COPY --from=build /opt/goqueue /opt/goqueue
RUN useradd --system --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin goqueue \
    && install --directory --owner goqueue --group goqueue --mode 0750 /var/lib/goqueue
# The node starts only if GOQUEUE_TLS_ENABLED is set, and requires keys unless GOQUEUE_AUTH_ENABLED is
# false: then publish the port where everybody may do everything, such as 127.0.0.1:8080:8080.
ENV PATH=/opt/goqueue/bin:$PATH \
    GOQUEUE_BROKER_DATADIR=/var/lib/goqueue \
    GOQUEUE_LISTENERS_HTTP=0.0.0.0:8080 \
    GOQUEUE_LOG_FORMAT=json
USER 10001:10001
WORKDIR /var/lib/goqueue
VOLUME /var/lib/goqueue
EXPOSE 8080
STOPSIGNAL SIGTERM
# Recovery after a crash may take minutes; failures before it is done do not count.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10m --retries=3 \
    CMD ["python", "-c", "import os, ssl, urllib.request as http; tls = os.environ.get('GOQUEUE_TLS_ENABLED') == 'true'; http.urlopen(f\"http{'s' * tls}://127.0.0.1:8080/readyz\", timeout=4, context=ssl._create_unverified_context() if tls else None)"]
# Without a shell in between, signals reach the node.
ENTRYPOINT ["goqueue"]
CMD ["serve"]
