# One image for every role; the role is the argument: `docker run … notifier worker p2`.
# The pins are resolved with the oldest Python that is supported, and the benchmarks were measured on it.
ARG PYTHON=3.11-slim-bookworm

FROM python:${PYTHON} AS build
WORKDIR /source
# First what seldom changes. Nothing is compiled here: a pin without a wheel for this Python fails the build.
COPY requirements/run.txt requirements/dev.txt requirements/
# Into an environment without pip: the one of this stage works on it from outside.
RUN python -m venv --without-pip /opt/notifier \
 && python -m pip --python /opt/notifier/bin/python install --no-cache-dir --require-hashes --only-binary=:all: \
    -r requirements/run.txt
# What builds the wheel, pinned as the checks have it.
RUN sed -n '/^setuptools==/,/# via/p' requirements/dev.txt > requirements/build.txt \
 && python -m pip install --no-cache-dir --require-hashes --only-binary=:all: -r requirements/build.txt
COPY pyproject.toml ./
COPY notifier notifier
COPY workers workers
COPY migrations migrations
RUN python -m pip wheel --no-deps --no-build-isolation --no-cache-dir --wheel-dir /built . \
 && python -m pip --python /opt/notifier/bin/python install --no-cache-dir --no-deps /built/*.whl

FROM python:${PYTHON}
# No installer in what runs; and a user who has a number, because Kubernetes can't prove that a name isn't root.
RUN python -m pip uninstall --yes --quiet pip setuptools wheel \
 && groupadd --gid 10001 notifier \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/notifier --shell /usr/sbin/nologin notifier \
 && install -d -o 10001 -g 10001 -m 0700 /var/lib/notifier
COPY --from=build /opt/notifier /opt/notifier
# All interfaces, or nobody outside of the container could ask. Bitmaps need no linear algebra: without the 1 every process
# starts a thread a core for it. The root is read-only in Kubernetes, so nothing is compiled into it either.
ENV PATH=/opt/notifier/bin:$PATH \
    NOTIFIER_DATA=/var/lib/notifier \
    NOTIFIER_HOST=0.0.0.0 \
    OPENBLAS_NUM_THREADS=1 \
    PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
EXPOSE 8080
# None: only one of the roles listens, and each has a probe of its own in k8s/base.
HEALTHCHECK NONE
ENTRYPOINT ["notifier"]
CMD ["up"]
