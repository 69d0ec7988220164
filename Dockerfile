# Two images from one file: `worker` holds what a worker imports and nothing else, `operator` the rest.
#
# Bytecode is compiled in, that of the standard library too (public Python images come without it):
# the root file system is read-only in the cluster, and a worker that compiles its imports at each
# start takes 0.4 s longer. It is never checked against its source, so no copy of a layer that loses
# times can make it stale.
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
RUN python3 -m venv --without-pip /opt/tare && python3 -m venv /opt/pip
WORKDIR /src
COPY pyproject.toml ./
# Dependencies first: their layer is made again only when pyproject.toml changes.
RUN python3 -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
    worker, operator = p["dependencies"], p["optional-dependencies"]["operator"]; \
    open("worker.txt", "w").write("\n".join(worker)); \
    open("operator.txt", "w").write("\n".join(operator))'
ENV PIP_INSTALL="/opt/pip/bin/pip --python /opt/tare/bin/python install --quiet --no-compile" \
    COMPILE="/opt/tare/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash"

FROM build AS wheel
COPY README.md LICENSE ./
COPY crds crds
COPY examples examples
COPY operator operator
RUN /opt/pip/bin/pip wheel --quiet --no-deps --wheel-dir /wheel .

FROM build AS build-worker
RUN $PIP_INSTALL -r worker.txt && $COMPILE /opt/tare/lib
COPY --from=wheel /wheel /wheel
RUN $PIP_INSTALL --no-deps /wheel/*.whl && $COMPILE /opt/tare/lib/python*/site-packages/tare

FROM build AS build-operator
RUN $PIP_INSTALL -r worker.txt -r operator.txt && $COMPILE /opt/tare/lib
COPY --from=wheel /wheel /wheel
RUN $PIP_INSTALL --no-deps /wheel/*.whl && $COMPILE /opt/tare/lib/python*/site-packages/tare

FROM ${BASE} AS runtime
LABEL org.opencontainers.image.title="Tare" \
      org.opencontainers.image.description="Benchmarks LLM inference services honestly" \
      org.opencontainers.image.licenses="Apache-2.0"
ENV PATH=/opt/tare/bin:$PATH
ENTRYPOINT ["python", "-m", "tare"]

FROM runtime AS worker
COPY --from=build-worker /opt/tare /opt/tare
# What these imports write, no later start has to compile; the last one comes with a look-up in DNS.
RUN python -c 'import tare.worker.main, tare.sim.serve.main, encodings.idna'
ENV PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
CMD ["worker"]

FROM runtime AS operator
COPY --from=build-operator /opt/tare /opt/tare
RUN python -c 'import tare.runtime.main, tare.runtime.drain, encodings.idna'
ENV PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
CMD ["operator"]
