using System.Collections.Generic;
using System.Linq;

namespace Tau.Core
{
    /// <summary>
    /// Binary rewards of one agent over a sliding window of its steps. A window that is not full yet uses the values
    /// that it has. Not thread-safe: use one window per agent.
    /// </summary>
    public sealed class RewardWindow
    {
        private static readonly string[] Aggregates = { "mean", "sum", "any", "all", "majority" };

        private readonly string _aggregate;
        private readonly int _size;
        private readonly double _low;
        private readonly Queue<bool> _steps = new Queue<bool>();
        private int _successes;

        /// <summary>An empty window.</summary>
        /// <param name="aggregate">
        /// `mean` or `sum` of the values in the window, or the value of whether `any`, `all` or the `majority` (more
        /// than half) of them are successes.
        /// </param>
        /// <param name="window">Number of steps, at least 1.</param>
        /// <param name="values">`01` (failure 0, success 1) or `pm1` (failure -1, success +1).</param>
        /// <exception cref="TauException">An argument is invalid.</exception>
        public RewardWindow(string aggregate = "mean", int window = 1, string values = "01")
        {
            if (!Aggregates.Contains(aggregate))
            {
                throw new TauException(
                    $"Reward `aggregate` is `{aggregate}`; choose one of `{string.Join("`, `", Aggregates)}`.");
            }
            if (window < 1 || (values != "01" && values != "pm1"))
            {
                throw new TauException("Reward `window` must be at least 1 step, and `values` `01` or `pm1`.");
            }
            _aggregate = aggregate;
            _size = window;
            _low = values == "01" ? 0.0 : -1.0;
        }

        /// <summary>The aggregate over the window; if it is empty, the value of a failure, or 0 for a sum.</summary>
        public double Value
        {
            get
            {
                switch (_aggregate)
                {
                    case "sum":
                        return Total;
                    case "mean":
                        return _steps.Count > 0 ? Total / _steps.Count : _low;
                    case "any":
                        return _successes > 0 ? 1.0 : _low;
                    case "all":
                        return _steps.Count > 0 && _successes == _steps.Count ? 1.0 : _low;
                    default:
                        return 2 * _successes > _steps.Count ? 1.0 : _low;
                }
            }
        }

        private double Total => (_low * _steps.Count) + ((1.0 - _low) * _successes);

        /// <summary>Appends one step.</summary>
        /// <returns>The aggregate over the window, including this step.</returns>
        public double Push(bool success)
        {
            if (_steps.Count == _size)
            {
                _successes -= _steps.Dequeue() ? 1 : 0;
            }
            _steps.Enqueue(success);
            _successes += success ? 1 : 0;
            return Value;
        }

        /// <summary>Empties the window.</summary>
        public void Clear()
        {
            _steps.Clear();
            _successes = 0;
        }
    }
}
