using System;
using System.Globalization;

namespace Tau.Core
{
    /// <summary>
    /// Binary rewards of one agent over a sliding window of its steps. A window that is not yet full is judged by what
    /// it holds. Not thread-safe: one agent, one window.
    /// </summary>
    public sealed class RewardWindow
    {
        private enum Kind
        {
            Mean,
            Sum,
            Any,
            All,
            Majority,
        }

        private readonly Kind _kind;
        private readonly double _low;
        private readonly bool[] _ring;
        private int _next;
        private int _successes;

        /// <summary>An empty window.</summary>
        /// <param name="aggregate">
        /// `mean` or `sum` of the values in the window, or the value of whether `any`, `all` or the `majority` (more
        /// than half) of them are successes.
        /// </param>
        /// <param name="window">Number of steps, at least 1.</param>
        /// <param name="values">`01` (failure 0, success 1) or `pm1` (failure -1, success +1).</param>
        /// <exception cref="TauException">An argument is none of these.</exception>
        public RewardWindow(string aggregate = "mean", int window = 1, string values = "01")
        {
            _kind = ParseKind(aggregate);
            if (window < 1)
            {
                var number = window.ToString(CultureInfo.InvariantCulture);
                throw new TauException("Reward `window` is " + number + " but must be at least 1 step.");
            }
            if (values != "01" && values != "pm1")
            {
                throw new TauException("Reward `values` is `" + values + "`; choose `01` or `pm1`.");
            }
            _low = values == "01" ? 0.0 : -1.0;
            _ring = new bool[window];
        }

        /// <summary>How many steps the window holds now, at most its size.</summary>
        public int Count { get; private set; }

        /// <summary>Appends one step.</summary>
        /// <returns>The aggregate over the window, this step included.</returns>
        public double Push(bool success)
        {
            if (Count == _ring.Length)
            {
                _successes -= _ring[_next] ? 1 : 0;
            }
            else
            {
                Count++;
            }
            _ring[_next] = success;
            _successes += success ? 1 : 0;
            _next = (_next + 1) % _ring.Length;
            return Peek();
        }

        /// <summary>The aggregate without a new step; an empty window has failure's value, as a sum 0.</summary>
        public double Peek()
        {
            var total = (_low * Count) + ((1.0 - _low) * _successes);
            switch (_kind)
            {
                case Kind.Sum:
                    return total;
                case Kind.Mean:
                    return Count > 0 ? total / Count : _low;
                case Kind.Any:
                    return _successes > 0 ? 1.0 : _low;
                case Kind.All:
                    return _successes == Count && Count > 0 ? 1.0 : _low;
                default:
                    return 2 * _successes > Count ? 1.0 : _low;
            }
        }

        /// <summary>Empties the window.</summary>
        public void Clear()
        {
            Array.Clear(_ring, 0, _ring.Length);
            Count = 0;
            _next = 0;
            _successes = 0;
        }

        private static Kind ParseKind(string aggregate)
        {
            switch (aggregate)
            {
                case "mean":
                    return Kind.Mean;
                case "sum":
                    return Kind.Sum;
                case "any":
                    return Kind.Any;
                case "all":
                    return Kind.All;
                case "majority":
                    return Kind.Majority;
                default:
                    throw new TauException(
                        "Reward `aggregate` is `" + aggregate
                        + "`; choose one of `mean`, `sum`, `any`, `all`, `majority`.");
            }
        }
    }
}
