using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using UnityEditor;
using UnityEditor.Build.Reporting;
using UnityEngine;
using UnityEngine.UIElements;

namespace Tau.Trainer.Editor
{
    /// <summary>Window → Tau Trainer: set up, train, watch, use the model.</summary>
    public sealed class TrainerWindow : EditorWindow
    {
        private const string DefaultModels = "Assets/TauTrainer/Models";
        private const string DefaultPackage = "tau-trainer";
        private const long RefreshMilliseconds = 500;

        private readonly Dictionary<string, Button> _offers = new Dictionary<string, Button>();
        private Label _setup;
        private Label _behaviors;
        private Label _numbers;
        private Label _log;
        private Button _cancel;
        private Button _train;
        private Button _resume;
        private Button _build;
        private Button _stop;
        private Curve _curve;
        private VisualElement _models;

        /// <summary>Opens the window.</summary>
        [MenuItem("Window/Tau Trainer")]
        public static void Open()
        {
            GetWindow<TrainerWindow>("Tau Trainer");
        }

        /// <summary>Unity calls this when the window opens, and after each reload of the C# domain.</summary>
        public void CreateGUI()
        {
            var page = new ScrollView();
            rootVisualElement.Add(page);
            page.Add(Setup());
            page.Add(Behaviors());
            page.Add(Train());
            page.Add(Watch());
            page.Add(Models());
            page.Add(Section("Log", _log = Text()));
            rootVisualElement.schedule.Execute(Refresh).Every(RefreshMilliseconds);
            ShowBehaviors();
        }

        private static Foldout Section(string title, params VisualElement[] parts)
        {
            var section = new Foldout { text = title };
            parts.ToList().ForEach(section.Add);
            return section;
        }

        private static VisualElement Row(params VisualElement[] parts)
        {
            var row = new VisualElement();
            row.style.flexDirection = FlexDirection.Row;
            row.style.flexWrap = Wrap.Wrap;
            parts.ToList().ForEach(row.Add);
            return row;
        }

        private static Label Text()
        {
            var label = new Label { enableRichText = false };
            label.style.whiteSpace = WhiteSpace.Normal;
            return label;
        }

        /// <summary>A field whose text is kept for this project.</summary>
        private static TextField Field(string label, string setting, string usual = "")
        {
            string known = TrainerDriver.Setting(setting);
            var field = new TextField(label) { value = known.Length > 0 ? known : usual };
            field.RegisterValueChangedCallback(change => TrainerDriver.Set(setting, change.newValue.Trim()));
            return field;
        }

        private static string Value(string setting, string usual)
        {
            string known = TrainerDriver.Setting(setting);
            return known.Length > 0 ? known : usual;
        }

        private Foldout Setup()
        {
            TextField path = Field("tau-train", "tau-train");
            path.tooltip = "The file tau-train, or the folder of a virtual environment. Empty: found by itself.";
            TextField package = Field("Package", "package", DefaultPackage);
            package.tooltip = "What pip installs: a name, a folder, or the address of a repository.";
            var choose = new Button(() =>
            {
                string file = EditorUtility.OpenFilePanel("tau-train", TrainerDriver.Project, string.Empty);
                path.value = string.IsNullOrEmpty(file) ? path.value : file;
            }) { text = "Choose..." };
            var check = new Button(() => TrainerDriver.Begin(Check)) { text = "Check" };
            var install = new Button(() => TrainerDriver.Begin(Install)) { text = "Install" };
            _cancel = new Button(TrainerDriver.Cancel) { text = "Cancel" };
            return Section("Setup", path, package, Row(choose, check, install, _cancel), _setup = Text());
        }

        private async Task Check(CancellationToken token)
        {
            _setup.text = "Checking...";
            try
            {
                string file = TrainerDriver.Find();
                Doctor doctor = await Doctor.AskAsync(file, TrainerDriver.Project, TrainerDriver.Results, token);
                string verdict = doctor.Problems.Count == 0 ? "No problem found." : string.Join("\n", doctor.Problems);
                _setup.text = file + "\n" + doctor.Versions + "\n" + verdict;
            }
            catch (TrainerException problem)
            {
                _setup.text = problem.Message;
            }
        }

        private async Task Install(CancellationToken token)
        {
            _setup.text = "Installing; this takes some minutes. The log shows the progress.";
            string package = Value("package", DefaultPackage);
            string folder = TrainerDriver.OwnEnvironment;
            try
            {
                await Installation.InstallAsync(folder, package, Machine.Here(), TrainerDriver.Say, token);
                await Check(token);
            }
            catch (Exception problem) when (problem is TrainerException || problem is OperationCanceledException)
            {
                _setup.text = problem is TrainerException ? problem.Message : "Cancelled.";
            }
        }

        private Foldout Behaviors()
        {
            TextField settings = Field("Settings", "settings");
            settings.tooltip = "ML-Agents' YAML file. Empty: the trainer's defaults.";
            var choose = new Button(() =>
            {
                string file = EditorUtility.OpenFilePanel("Settings", TrainerDriver.Project, "yaml");
                settings.value = string.IsNullOrEmpty(file) ? settings.value : file;
            }) { text = "Choose..." };
            var create = new Button(() => TrainerDriver.Begin(token => Create(settings, token))) { text = "Create" };
            var open = new Button(() => OpenFile(settings.value)) { text = "Open" };
            var refresh = new Button(ShowBehaviors) { text = "Look again" };
            return Section("Behaviors", _behaviors = Text(), Row(refresh), settings, Row(choose, create, open));
        }

        private void ShowBehaviors()
        {
            BehaviorFacts[] agents = SceneAgents.Find().Select(SceneAgents.Facts).ToArray();
            IEnumerable<string> warnings = BehaviorFacts.Warnings(agents).Select(warning => "Warning: " + warning);
            _behaviors.text = string.Join("\n", BehaviorFacts.Summaries(agents).Concat(warnings));
        }

        private async Task Create(TextField settings, CancellationToken token)
        {
            string folder = Path.Combine(TrainerDriver.Project, "Training");
            string[] words = { "init", folder, "--json" };
            ToolResult done = await Tool.RunAsync(
                TrainerDriver.Find(), words, TrainerDriver.Project, _ => { }, token);
            string file = JsonNode.Read(done.Output)["file"].Text;
            if (file == null)
            {
                throw new TrainerException(done.LastLine);
            }
            settings.value = file;
            TrainerDriver.Say("Settings: " + file + " has a comment for every key.");
        }

        private Foldout Train()
        {
            TextField run = Field("Run", "run");
            run.tooltip = "Name of the run to resume. Empty: the newest. A new run is named after its settings.";
            TextField engines = Field("Engines", "engines", "4");
            engines.tooltip = "Processes of the build that play at the same time.";
            _train = new Button(() => Start(new LearnOptions())) { text = "Train in the editor" };
            _resume = new Button(() => Resume(run.value.Trim())) { text = "Resume" };
            _build = new Button(() => Build(engines.value)) { text = "Build and train" };
            _stop = new Button(() => TrainerDriver.Try(() => TrainerDriver.Run?.Stop())) { text = "Stop" };
            _stop.tooltip = "Saves and exports. Click again to save without waiting.";
            return Section("Train", Row(_train, _resume, _stop), run, engines, Row(_build));
        }

        private static void Start(LearnOptions options)
        {
            options.Settings = TrainerDriver.Setting("settings");
            options.RunId = options.RunId ?? RunList.NextId(TrainerDriver.Results, options.Settings);
            TrainerDriver.Say("Starting the run " + options.RunId + ".");
            TrainerDriver.Start(options);
        }

        private static void Resume(string run)
        {
            RunEntry entry = RunList.Read(TrainerDriver.Results)
                .FirstOrDefault(each => each.CanResume && (run.Length == 0 || each.Id == run));
            if (entry == null)
            {
                string which = run.Length == 0 ? "no run" : "no run " + run;
                string where = " with a checkpoint in " + TrainerDriver.Results;
                TrainerDriver.Say("There is " + which + where + ": start one.");
                return;
            }
            Start(new LearnOptions { RunId = entry.Id, Resume = true });
        }

        private static void Build(string engines)
        {
            if (!int.TryParse(engines, out int count) || count < 1)
            {
                TrainerDriver.Say("Engines is `" + engines + "`: write a number from 1 up.");
                return;
            }
            IEnumerable<EditorBuildSettingsScene> wanted = EditorBuildSettings.scenes.Where(scene => scene.enabled);
            string[] scenes = wanted.Select(scene => scene.path).ToArray();
            if (scenes.Length == 0)
            {
                TrainerDriver.Say("No scene is in the build: add your scene in the Build Settings.");
                return;
            }
            BuildTarget target = EditorUserBuildSettings.activeBuildTarget;
            string ending = target == BuildTarget.StandaloneWindows64 ? ".exe"
                : target == BuildTarget.StandaloneOSX ? ".app" : ".x86_64";
            string name = Application.productName + ending;
            string player = Path.Combine(TrainerDriver.Project, "Builds", "TauTrainer", name);
            BuildReport report = BuildPipeline.BuildPlayer(
                new BuildPlayerOptions { scenes = scenes, locationPathName = player, target = target });
            if (report.summary.result != BuildResult.Succeeded)
            {
                TrainerDriver.Say("The build " + report.summary.result + ": the Console shows why.");
                return;
            }
            Start(new LearnOptions { Build = player, Engines = count });
        }

        private Foldout Watch()
        {
            var board = new Button(() => TrainerDriver.Begin(TensorBoard)) { text = "TensorBoard" };
            var report = new Button(() => TrainerDriver.Begin(Report)) { text = "Report" };
            return Section("Watch", _numbers = Text(), _curve = new Curve(), Row(board, report));
        }

        private static Task TensorBoard(CancellationToken token)
        {
            string[] words = { "tensorboard", "--port=0", "--results-dir=" + TrainerDriver.Results };
            TrainerDriver.Say("TensorBoard runs until you click Cancel or scripts are loaded again.");
            return Tool.RunAsync(TrainerDriver.Find(), words, TrainerDriver.Project, Show, token);

            void Show(string line)
            {
                TrainerDriver.Say(line);
                int at = line.IndexOf("http://", StringComparison.Ordinal);
                if (at >= 0)
                {
                    TrainerDriver.Later(() => Application.OpenURL(line.Substring(at).Trim()));
                }
            }
        }

        private static async Task Report(CancellationToken token)
        {
            string folder = TrainerDriver.Run?.Folder
                ?? RunList.Read(TrainerDriver.Results).Select(entry => entry.Folder).FirstOrDefault()
                ?? throw new TrainerException("There is no run to report on: start one.");
            string[] words = { "report", folder };
            ToolResult done = await Tool.RunAsync(TrainerDriver.Find(), words, TrainerDriver.Project, _ => { }, token);
            if (done.Code != 0)
            {
                throw new TrainerException(done.LastLine);
            }
            OpenFile(Path.Combine(folder, "report.html"));
        }

        private static void OpenFile(string file)
        {
            if (File.Exists(file))
            {
                EditorUtility.OpenWithDefaultApp(file);
            }
            else
            {
                TrainerDriver.Say("`" + file + "` does not exist: choose a file, or click Create.");
            }
        }

        private Foldout Models()
        {
            TextField folder = Field("Folder", "models", DefaultModels);
            return Section("Use the model", folder, _models = new VisualElement());
        }

        private void Use(string behavior)
        {
            ModelCandidate model = TrainerDriver.Run?.Offer(behavior);
            if (model == null)
            {
                return;
            }
            if (EditorApplication.isPlaying)
            {
                TrainerDriver.Say("Leave Play first: what changes while the game plays is lost.");
                return;
            }
            TrainerDriver.Try(() =>
            {
                int count = SceneAgents.Use(model, Value("models", DefaultModels));
                TrainerDriver.Run.Used(model);
                TrainerDriver.Say("The model of " + behavior + " is used by " + count + " agents of the open scene.");
            });
        }

        private void Refresh()
        {
            TrainerRun run = TrainerDriver.Run;
            bool running = TrainerDriver.IsRunning;
            _cancel.SetEnabled(TrainerDriver.IsBusy);
            _stop.SetEnabled(running);
            new[] { _train, _resume, _build }.ToList().ForEach(button => button.SetEnabled(!running));
            _log.text = TrainerDriver.Log;
            if (run == null)
            {
                _numbers.text = "No run was started here.";
                return;
            }
            _numbers.text = run.Summary(Path.GetFileName(run.Folder));
            _curve.Show(run.State.Curves);
            foreach (string behavior in run.State.Models.Select(model => model.Behavior).Distinct())
            {
                Offer(behavior, run.Offer(behavior));
            }
        }

        private void Offer(string behavior, ModelCandidate model)
        {
            if (!_offers.TryGetValue(behavior, out Button button))
            {
                _offers[behavior] = button = new Button(() => Use(behavior)) { enableRichText = false };
                _models.Add(button);
            }
            button.SetEnabled(model != null);
            button.text = model == null ? behavior + ": the best model is in use" : "Use " + model.Description;
        }
    }
}
