using System;
using UnityEngine;

namespace Unity.MLAgents
{
    /// <summary>
    /// Steps agents in ML-Agents' order (Academy.EnvironmentStep): the first reset, AgentPreStep, the counters, all
    /// agents' observations, all decisions, all actions. Each of these is a C# event, raised with the listeners of that
    /// moment: an agent that comes in AgentPreStep takes part in the same step.
    /// </summary>
    public sealed class Academy
    {
        private static Academy _instance;

        private readonly RecursionChecker _stepping = new RecursionChecker("EnvironmentStep");
        private bool _hadFirstReset;

        private Academy(Communicator communicator)
        {
            Communicator = communicator;
            EnvironmentParameters = new EnvironmentParameters();
            StatsRecorder = new StatsRecorder();
            if (communicator != null)
            {
                communicator.Parameters = EnvironmentParameters;
                communicator.Receive(); // the first message holds parameters; its reset is not heard yet
                communicator.ResetReceived = ForcedFullReset;
            }
        }

        /// <summary>Before anything else in a step; gets the number of steps since the last reset.</summary>
        public event Action<int> AgentPreStep;

        /// <summary>The environment is reset; agents hear of it afterwards.</summary>
        public event Action OnEnvironmentReset;

        internal event Action AgentIncrementStep;

        internal event Action AgentSendState;

        internal event Action DecideAction;

        internal event Action AgentAct;

        internal event Action AgentForceReset;

        /// <summary>There is one.</summary>
        public static bool IsInitialized => _instance != null;

        /// <summary>The only one; made, and connected to a trainer, when it is first asked for.</summary>
        public static Academy Instance
        {
            get
            {
                if (_instance == null)
                {
                    _instance = new Academy(Trainer);
                    World.Stepper = _instance.EnvironmentStep;
                }
                return _instance;
            }
        }

        /// <summary>A trainer is connected.</summary>
        public bool IsCommunicatorOn => Communicator != null;

        /// <summary>Numbers that the trainer sends.</summary>
        public EnvironmentParameters EnvironmentParameters { get; }

        /// <summary>Statistics for the trainer.</summary>
        public StatsRecorder StatsRecorder { get; }

        /// <summary>Copies of a training area; 0: there is none.</summary>
        public int NumAreas { get; internal set; }

        /// <summary>Steps since the last reset.</summary>
        public int StepCount { get; private set; }

        /// <summary>Steps since the beginning.</summary>
        public int TotalStepCount { get; private set; }

        /// <summary>The trainer that the next academy finds; null: none.</summary>
        internal static Communicator Trainer { get; set; }

        internal Communicator Communicator { get; }

        /// <summary>Listeners of <see cref="AgentPreStep"/>.</summary>
        internal int PreStepListeners => AgentPreStep?.GetInvocationList().Length ?? 0;

        /// <summary>Listeners of <see cref="OnEnvironmentReset"/>.</summary>
        internal int ResetListeners => OnEnvironmentReset?.GetInvocationList().Length ?? 0;

        /// <summary>One step.</summary>
        public void EnvironmentStep()
        {
            using (_stepping.Start())
            {
                if (!_hadFirstReset)
                {
                    ForcedFullReset();
                }
                AgentPreStep?.Invoke(StepCount);
                StepCount++;
                TotalStepCount++;
                AgentIncrementStep?.Invoke();
                AgentSendState?.Invoke();
                DecideAction?.Invoke();
                AgentAct?.Invoke();
            }
        }

        /// <summary>
        /// Ends it, as when the game ends: agents that are disabled later see that there is none, and make none.
        /// </summary>
        internal static void End()
        {
            _instance = null;
            World.Stepper = null;
        }

        private void ForcedFullReset()
        {
            StepCount = 0;
            OnEnvironmentReset?.Invoke();
            AgentForceReset?.Invoke();
            _hadFirstReset = true;
        }
    }

    /// <summary>What goes wrong in ML-Agents.</summary>
    public sealed class UnityAgentsException : Exception
    {
        /// <summary>One sentence.</summary>
        public UnityAgentsException(string message)
            : base(message)
        {
        }
    }

    /// <summary>Finds methods that call themselves, as ML-Agents' class of this name does.</summary>
    internal sealed class RecursionChecker : IDisposable
    {
        private readonly string _method;
        private bool _running;

        public RecursionChecker(string method)
        {
            _method = method;
        }

        /// <exception cref="UnityAgentsException">The method runs already.</exception>
        public IDisposable Start()
        {
            if (_running)
            {
                throw new UnityAgentsException(_method + " called recursively.");
            }
            _running = true;
            return this;
        }

        public void Dispose()
        {
            _running = false;
        }
    }
}
