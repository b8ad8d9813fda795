# One image for all roles. The role is the argument: `docker run … notifier worker p2`.
# The oldest supported Python: the pins are resolved with it, and the benchmarks were measured on it.
ARG PYTHON=3.11-slim-bookworm

FROM python:${PYTHON} AS build
WORKDIR /source
# Dependencies first, because they seldom change. Nothing is compiled: a pin without a wheel for this Python fails the build.
COPY requirements/run.txt requirements/dev.txt requirements/
# The environment has no pip: this stage's pip installs into it.
RUN python -m venv --without-pip /opt/notifier \
 && python -m pip --python /opt/notifier/bin/python install --no-cache-dir --require-hashes --only-binary=:all: \
    -r requirements/run.txt
# Build tools for the wheel, with the same pins as in development.
RUN sed -n '/^setuptools==/,/# via/p' requirements/dev.txt > requirements/build.txt \
 && python -m pip install --no-cache-dir --require-hashes --only-binary=:all: -r requirements/build.txt
COPY pyproject.toml ./
COPY notifier notifier
COPY workers workers
COPY migrations migrations
RUN python -m pip wheel --no-deps --no-build-isolation --no-cache-dir --wheel-dir /built . \
 && python -m pip --python /opt/notifier/bin/python install --no-cache-dir --no-deps /built/*.whl

FROM python:${PYTHON}
# No installer in the final image. The user is numeric, because Kubernetes can't verify that a named user is not root.
RUN python -m pip uninstall --yes --quiet pip setuptools wheel \
 && groupadd --gid 10001 notifier \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/notifier --shell /usr/sbin/nologin notifier \
 && install -d -o 10001 -g 10001 -m 0700 /var/lib/notifier
COPY --from=build /opt/notifier /opt/notifier
# Listen on all interfaces, or the API is unreachable from outside the container. OPENBLAS_NUM_THREADS: bitmaps need no
# linear algebra, for which every process would start a thread per core. No bytecode: the root is read-only in Kubernetes.
ENV PATH=/opt/notifier/bin:$PATH \
    NOTIFIER_DATA=/var/lib/notifier \
    NOTIFIER_HOST=0.0.0.0 \
    OPENBLAS_NUM_THREADS=1 \
    PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
EXPOSE 8080
# No health check: only one role listens, and each role has its own probe in k8s/base.
HEALTHCHECK NONE
ENTRYPOINT ["notifier"]
CMD ["up"]
